#![allow(clippy::unwrap_used)]
use futures::{FutureExt, StreamExt};

use super::*;

fn tokens(ids: &[TokenId]) -> Vec<CommittedToken> {
    ids.iter().map(|&token| CommittedToken { token, origin: Origin::Plain }).collect()
}

/// 0 and 1 are the halves of "é", 2 is "x", 3 ends.
fn tokenizer() -> Tokenizer {
    let bytes = vec![vec![0xC3], vec![0xA9], b"x".to_vec(), b"</s>".to_vec()];
    Tokenizer::from_bytes(bytes, &[3], &[3])
}

fn channel(n_choices: u32) -> (Vec<Output>, Generation) {
    Output::channel(n_choices, &Arc::default())
}

/// Sends a round, the last token of which means `end`.
fn commit(output: &mut Output, ids: &[TokenId], end: RoundEnd) -> Result<(), Undelivered> {
    let (last, before) = tokens(ids).split_last().map(|(last, before)| (*last, before.to_vec())).unwrap();
    let mut spelled: Vec<OutputToken> =
        before.into_iter().map(|token| output.spell(&tokenizer(), token, RoundEnd::Open).0).collect();
    spelled.push(output.spell(&tokenizer(), last, end).0);
    output.committed(Vec::new(), spelled, 0)
}

/// The way out of a request for one continuation.
fn single() -> (Output, Generation) {
    let (mut outputs, generation) = channel(1);
    (outputs.remove(0), generation)
}

fn finished(output: &Output) -> v1::Finished {
    v1::Finished { choice_index: output.choice_index(), ..Default::default() }
}

/// What has come so far.
fn received(generation: &mut Generation) -> Vec<Result<Event, Error>> {
    std::iter::from_fn(|| generation.next().now_or_never().flatten()).collect()
}

fn texts(events: &[Result<Event, Error>]) -> Vec<&str> {
    let tokens = events.iter().filter_map(|event| match event {
        Ok(Event::Committed { tokens, .. }) => Some(tokens),
        _ => None,
    });
    tokens.flatten().map(|token| token.text.as_str()).collect()
}

#[test]
fn a_character_comes_with_the_token_that_completes_it() {
    let (mut output, mut generation) = single();
    commit(&mut output, &[2, 0], RoundEnd::Open).unwrap();
    commit(&mut output, &[1, 3], RoundEnd::EndToken).unwrap();
    assert_eq!(texts(&received(&mut generation)), ["x", "", "é", ""]);
}

#[test]
fn half_a_character_at_the_end_is_replaced_once() {
    let (mut output, mut generation) = single();
    commit(&mut output, &[2, 0], RoundEnd::Length).unwrap();
    assert_eq!(texts(&received(&mut generation)), ["x", "\u{FFFD}"]);
}

#[test]
fn a_stop_token_with_a_spelling_has_no_text() {
    let (mut output, mut generation) = single();
    commit(&mut output, &[2, 2], RoundEnd::EndToken).unwrap();
    assert_eq!(texts(&received(&mut generation)), ["x", ""]);
}

#[test]
fn the_halves_of_a_character_never_meet_those_of_another_continuation() {
    let (mut outputs, mut generation) = channel(2);
    for token in [0, 1] {
        for output in &mut outputs {
            commit(output, &[token], RoundEnd::Open).unwrap();
        }
    }
    assert_eq!(texts(&received(&mut generation)), ["", "", "é", "é"]);
}

#[test]
fn a_client_that_does_not_read_loses_its_stream_and_hears_why() {
    let (mut output, mut generation) = single();
    let mut n_sent = 0;
    let undelivered = loop {
        match commit(&mut output, &[2], RoundEnd::Open) {
            Ok(()) => n_sent += 1,
            Err(undelivered) => break undelivered,
        }
    };
    assert_eq!((n_sent, undelivered), (MAX_UNREAD, Undelivered::Full { n_events: MAX_UNREAD }));
    output.end(Err(Error::SlowClient { n_events: MAX_UNREAD }));
    let events = received(&mut generation);
    assert_eq!(texts(&events).len(), MAX_UNREAD);
    assert!(matches!(events.last(), Some(Err(Error::SlowClient { n_events: MAX_UNREAD }))));
}

#[test]
fn a_client_that_left_is_noticed() {
    let (output, generation) = single();
    assert!(!output.is_abandoned());
    drop(generation);
    assert!(output.is_abandoned());
    assert_eq!(output.started(1, 0), Err(Undelivered::Gone));
}

#[test]
fn a_stream_ends_after_the_last_continuation_and_starts_once() {
    let (outputs, mut generation) = channel(3);
    for mut output in outputs.into_iter().rev() {
        output.started(1, 0).unwrap();
        commit(&mut output, &[2], RoundEnd::Length).unwrap();
        let last = finished(&output);
        output.end(Ok(last));
    }
    let events: Vec<Event> = received(&mut generation).into_iter().map(Result::unwrap).collect();
    let n_started = events.iter().filter(|event| matches!(event, Event::Started { .. })).count();
    let ends: Vec<u32> = (events.iter())
        .filter_map(|event| match event {
            Event::Finished(finished) => Some(finished.choice_index),
            _ => None,
        })
        .collect();
    assert_eq!((n_started, ends), (1, vec![2, 1, 0]));
    assert_eq!(generation.next().now_or_never().map(|over| over.is_none()), Some(true));
}

#[test]
fn the_failure_of_one_continuation_ends_the_stream_and_tells_the_others() {
    let (mut outputs, mut generation) = channel(2);
    outputs.remove(0).end(Err(Error::Draining));
    assert_eq!(received(&mut generation).len(), 1);
    assert_eq!(generation.next().now_or_never().map(|over| over.is_none()), Some(true));
    assert!(outputs[0].is_abandoned());
}

#[test]
fn an_engine_that_is_gone_is_an_error() {
    let (output, mut generation) = single();
    drop(output);
    assert!(matches!(received(&mut generation)[..], [Err(Error::ModelFailed(_))]));
}

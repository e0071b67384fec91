#![allow(clippy::unwrap_used)]
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use specfleet_service::serve::UNTAKEN_TIMEOUT;
use tokio::time::{advance, sleep};

use super::{watched::LOOK_INTERVAL, *};
use crate::engine::Places;

fn tokens(ids: &[TokenId]) -> Vec<CommittedToken> {
    ids.iter().map(|&token| CommittedToken { token, origin: Origin::Plain }).collect()
}

/// 0 and 1 are the halves of "é", 2 is "x", 3 ends.
fn tokenizer() -> Tokenizer {
    let bytes = vec![vec![0xC3], vec![0xA9], b"x".to_vec(), b"</s>".to_vec()];
    Tokenizer::from_bytes(bytes, &[3], &[3])
}

fn channel(n_choices: u32) -> (Vec<Output>, Generation) {
    Output::channel(n_choices, &Arc::default(), 0, &Arc::default())
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

/// The only place of a server.
fn place() -> (Arc<Places>, Arc<Permit>) {
    let places = Arc::new(Places::new(1, Duration::MAX));
    let place = Arc::new(Permit::new(places.take(Instant::now(), 1).unwrap()));
    (places, place)
}

fn is_free(places: &Arc<Places>) -> bool {
    places.take(Instant::now(), 1).is_ok()
}

fn finished(output: &Output) -> v1::Finished {
    v1::Finished { choice_index: output.choice_index(), ..Default::default() }
}

/// What has come so far.
fn received(generation: &mut (impl Stream<Item = Result<Event, Error>> + Unpin)) -> Vec<Result<Event, Error>> {
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

/// Sends until the client has left too much unread; how often that went well, and what was left then.
fn fill(output: &mut Output, prompt: impl Fn() -> Vec<PromptToken>) -> (usize, usize) {
    let mut n_sent = 0;
    loop {
        let (token, _) = output.spell(&tokenizer(), tokens(&[2])[0], RoundEnd::Open);
        match output.committed(prompt(), vec![token], 0) {
            Ok(()) => n_sent += 1,
            Err(Undelivered::Full { n_bytes, .. }) => return (n_sent, n_bytes),
            Err(undelivered) => panic!("{undelivered:?}"),
        }
    }
}

#[test]
fn a_client_that_does_not_read_loses_its_stream_and_hears_why() {
    let (mut output, mut generation) = single();
    let (n_sent, n_bytes) = fill(&mut output, Vec::new);
    assert!(n_sent > 1000, "ten seconds of decoding at 10 ms a round: {n_sent}");
    output.end(Err(Error::SlowClient { n_bytes, most: MAX_UNREAD_BYTES }), place().1);
    let events = received(&mut generation);
    assert_eq!(texts(&events).len(), n_sent);
    assert!(matches!(events.last(), Some(Err(Error::SlowClient { .. }))));
}

#[test]
fn what_is_left_unread_is_bounded_for_the_request_and_not_for_its_events() {
    let scored = || {
        let score = Some(TokenScore { logprob: 0.0, top: vec![(0, 0.0); 20] });
        (0..100).map(|token| PromptToken { token, score: score.clone() }).collect::<Vec<_>>()
    };
    for n_choices in [1, 128] {
        let (mut outputs, _generation) = channel(n_choices);
        let most = MAX_UNREAD_BYTES * n_choices as usize;
        let (n_sent, n_bytes) = fill(&mut outputs[0], scored);
        assert!((most..most + 64_000).contains(&n_bytes), "{n_bytes}: no more than the limit and an event");
        assert!((most / 64_000..most / 16_000).contains(&n_sent), "{n_sent}");
        for output in &outputs {
            assert!(matches!(output.committed(Vec::new(), Vec::new(), 0), Err(Undelivered::Full { .. })), "in all");
        }
    }
}

/// Whoever asks for many continuations, of which all but one end at once, has room for one.
#[test]
fn what_may_be_left_unread_shrinks_with_every_end() {
    let (mut outputs, mut generation) = channel(128);
    for mut output in outputs.drain(1..) {
        commit(&mut output, &[2], RoundEnd::Length).unwrap();
        let last = finished(&output);
        output.end(Ok(last), place().1);
    }
    assert_eq!(received(&mut generation).len(), 2 * 127);
    let (_, n_bytes) = fill(&mut outputs[0], Vec::new);
    assert!((MAX_UNREAD_BYTES..MAX_UNREAD_BYTES + 1000).contains(&n_bytes), "{n_bytes}");
}

#[test]
fn a_client_that_reads_gets_an_event_of_any_size() {
    let (output, mut generation) = single();
    let huge = || OutputToken {
        token: 2,
        text: "x".repeat(2 * MAX_UNREAD_BYTES),
        n_chars: 2 * MAX_UNREAD_BYTES,
        origin: Origin::Plain,
        score: None,
    };
    for _ in 0..10 {
        output.committed(Vec::new(), vec![huge()], 0).unwrap();
        assert_eq!(received(&mut generation).len(), 1);
    }
}

#[test]
fn no_stop_string_is_complete_before_the_least_number_of_tokens() {
    let stops: Arc<[String]> = Arc::new(["x".to_owned()]);
    for min_tokens in 0..4 {
        let (mut outputs, _generation) = Output::channel(1, &stops, min_tokens, &Arc::default());
        let ends: Vec<RoundEnd> =
            (0..=min_tokens).map(|_| outputs[0].spell(&tokenizer(), tokens(&[2])[0], RoundEnd::Open).1).collect();
        let (last, before) = ends.split_last().unwrap();
        assert!(before.iter().all(|end| *end == RoundEnd::Open), "{ends:?}");
        assert_eq!(*last, RoundEnd::StopString);
    }
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
        output.end(Ok(last), place().1);
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
    outputs.remove(0).end(Err(Error::Draining), place().1);
    assert_eq!(received(&mut generation).len(), 1);
    assert_eq!(generation.next().now_or_never().map(|over| over.is_none()), Some(true));
    assert!(outputs[0].is_abandoned());
}

/// What it has left takes memory, so nobody else may have its place.
#[test]
fn a_continuation_keeps_its_place_until_the_client_has_taken_its_end() {
    let end = || {
        let (places, place) = place();
        let (mut output, generation) = single();
        commit(&mut output, &[2], RoundEnd::Length).unwrap();
        let last = finished(&output);
        output.end(Ok(last), place);
        assert!(!is_free(&places));
        (places, generation)
    };
    let (places, mut generation) = end();
    assert!(generation.next().now_or_never().is_some() && !is_free(&places), "the end is still to come");
    assert!(generation.next().now_or_never().is_some() && is_free(&places));
    let (places, generation) = end();
    drop(generation);
    assert!(is_free(&places));
}

/// An ended request with some events that nobody has taken, watched.
fn left(n_events: usize) -> (Arc<Places>, Watched<Generation>) {
    let (places, place) = place();
    let (mut output, generation) = single();
    for _ in 0..n_events {
        commit(&mut output, &[2], RoundEnd::Open).unwrap();
    }
    let last = finished(&output);
    output.end(Ok(last), place);
    (places, watched(generation))
}

fn watched(generation: Generation) -> Watched<Generation> {
    let has_ended = generation.has_ended();
    Watched::new(generation, has_ended, |_| Err(untaken()))
}

#[tokio::test(start_paused = true)]
async fn what_an_ended_request_has_left_is_dropped_when_nothing_of_it_is_taken() {
    let (places, mut generation) = left(1000);
    assert!(generation.next().await.unwrap().is_ok());
    sleep(UNTAKEN_TIMEOUT - LOOK_INTERVAL).await;
    assert!(!is_free(&places), "too early");
    sleep(4 * LOOK_INTERVAL).await;
    assert!(is_free(&places), "the memory of others");
    let events = received(&mut generation);
    assert!(matches!(events[..], [Err(Error::Untaken { .. })]), "{events:?}");
    assert!(generation.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn who_takes_what_is_left_slowly_gets_all_of_it() {
    let (places, mut generation) = left(10);
    for _ in 0..10 {
        sleep(UNTAKEN_TIMEOUT - 2 * LOOK_INTERVAL).await;
        assert!(matches!(generation.next().await, Some(Ok(Event::Committed { .. }))));
    }
    assert!(matches!(generation.next().await, Some(Ok(Event::Finished(_)))) && is_free(&places));
}

/// The end of the events has not been asked for, but there is nothing before it.
#[tokio::test(start_paused = true)]
async fn who_has_taken_everything_is_not_told_that_something_was_dropped() {
    let (places, mut generation) = left(1);
    for _ in 0..2 {
        assert!(generation.next().await.unwrap().is_ok());
    }
    assert!(is_free(&places));
    sleep(2 * UNTAKEN_TIMEOUT).await;
    assert!(generation.next().await.is_none());
}

/// However long it takes, and however late the client was then.
#[tokio::test(start_paused = true)]
async fn a_request_that_runs_is_not_watched() {
    let (mut output, generation) = single();
    let mut generation = watched(generation);
    commit(&mut output, &[2], RoundEnd::Open).unwrap();
    sleep(10 * UNTAKEN_TIMEOUT).await;
    commit(&mut output, &[2], RoundEnd::Length).unwrap();
    let last = finished(&output);
    output.end(Ok(last), place().1);
    advance(LOOK_INTERVAL * 2).await;
    assert_eq!(received(&mut generation).into_iter().filter(Result::is_ok).count(), 3);
}

#[test]
fn an_engine_that_is_gone_is_an_error() {
    let (output, mut generation) = single();
    drop(output);
    assert!(matches!(received(&mut generation)[..], [Err(Error::ModelFailed(_))]));
}

/// The runtime lets a task take so many turns at a time, then it has every channel say that nothing is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_tokens_come_before_the_end_even_if_the_runtime_cuts_a_turn_short() {
    for trial in 0..3000 {
        let (mut output, mut generation) = single();
        let engine = std::thread::spawn(move || {
            commit(&mut output, &[2], RoundEnd::Length).unwrap();
            let last = finished(&output);
            output.end(Ok(last), place().1);
        });
        let first = tokio::spawn(async move {
            loop {
                // Of the 128 looks of a turn, leave one.
                tokio::task::yield_now().await;
                for _ in 0..127 {
                    tokio::task::coop::consume_budget().await;
                }
                if let Some(event) = generation.next().now_or_never() {
                    return event;
                }
            }
        });
        let first = first.await.unwrap();
        assert!(matches!(first, Some(Ok(Event::Committed { .. }))), "trial {trial}: {first:?} came first");
        engine.join().unwrap();
    }
}

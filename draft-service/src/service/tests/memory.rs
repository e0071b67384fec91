//! Memory is bounded, and whatever ends a session gives its part back.

use std::{num::NonZeroUsize, time::Duration};

use specfleet_protocol::{status::Reason, v1::draft_request::Message};
use tonic::{Code, Status};

use super::harness::*;

const OPEN: &str = "specfleet_draft_sessions_open";
const MEMORY: &str = "specfleet_draft_memory_tokens";

fn assert_evicted(status: &Status) {
    assert_eq!(
        (status.code(), Reason::of(status)),
        (Code::ResourceExhausted, Some(Reason::SessionEvicted)),
        "{status}"
    );
}

#[tokio::test]
async fn one_session_too_many_closes_the_least_recently_used() {
    let mut options = options();
    options.max_sessions = NonZeroUsize::new(2).unwrap();
    let draft = Draft::of_model(mixed_model(), options);
    let mut first = draft.open(&[1], 1).await;
    let mut second = draft.open(&[2], 1).await;
    first.advance(&[], 1).await.unwrap();
    let mut third = draft.open(&[3], 1).await;
    // Told at once, without asking.
    assert_evicted(&second.hear().await.unwrap_err());
    first.advance(&[4], 1).await.unwrap();
    third.advance(&[4], 1).await.unwrap();
    assert_eq!(draft.metric("specfleet_draft_evictions_total"), 1.0);
    assert_eq!(draft.metric(OPEN), 2.0);
}

#[tokio::test]
async fn full_kv_memory_closes_the_least_recently_used() {
    let draft = Draft::of_model(mixed_model().with_kv_tokens(128), options());
    let mut first = draft.open(&[1; 50], 1).await;
    let mut second = draft.open(&[2; 30], 1).await;
    let mut third = draft.open(&[3; 20], 1).await;
    assert_evicted(&first.hear().await.unwrap_err());
    // A session that grows takes from others too, never from itself while it waits.
    let grown = vec![5; 70];
    assert_eq!(third.advance(&grown, 4).await.unwrap().tokens.len(), 4);
    assert_evicted(&second.hear().await.unwrap_err());
}

#[tokio::test]
async fn sessions_that_are_drafting_are_not_closed_for_others() {
    let mut options = options();
    options.max_sessions = NonZeroUsize::new(1).unwrap();
    let draft = Draft::of_model(mixed_model().with_delay(Duration::from_millis(100)), options);
    let mut busy = draft.open(&[1], 1).await;
    let drafting = tokio::spawn(async move { busy.advance(&[], 8).await });
    draft.metric_reaches("specfleet_draft_step_sessions_total", 1.0).await;
    let refused = draft.open_with(draft.open_message(&[2], 1)).await.err().unwrap();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::ResourceExhausted, Some(Reason::Overloaded)));
    assert_eq!(drafting.await.unwrap().unwrap().tokens.len(), 8);
}

#[tokio::test]
async fn nobody_is_closed_for_a_session_that_would_not_fit_all_the_same() {
    // 8 blocks: 5 for the busy session, 2 for the idle one. Without the idle one there would be 3.
    let model = mixed_model().with_kv_tokens(128).with_delay(Duration::from_millis(50));
    let draft = Draft::of_model(model, options());
    let mut idle = draft.open(&[1; 20], 1).await;
    let mut busy = draft.open(&[2; 60], 1).await;
    busy.advance(&[], 1).await.unwrap();
    let drafting = tokio::spawn(async move { busy.advance(&[], 8).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let refused = draft.open_with(draft.open_message(&[3; 50], 1)).await.err().unwrap();
    assert_eq!(Reason::of(&refused), Some(Reason::Overloaded), "{refused}");
    assert_eq!(idle.advance(&[], 4).await.unwrap().tokens.len(), 4);
    assert_eq!(drafting.await.unwrap().unwrap().tokens.len(), 8);
    assert_eq!(draft.metric("specfleet_draft_evictions_total"), 0.0);
}

#[tokio::test]
async fn a_prefix_that_can_never_fit_is_refused_and_nobody_is_closed_for_it() {
    let draft = Draft::of_model(mixed_model().with_kv_tokens(64), options());
    let mut session = draft.open(&[1; 20], 1).await;
    let refused = draft.open_with(draft.open_message(&[2; 65], 1)).await.err().unwrap();
    assert_eq!(Reason::of(&refused), Some(Reason::ContextLength));
    assert!(refused.message().contains("65"), "{refused}");
    session.advance(&[], 1).await.unwrap();
}

#[tokio::test]
async fn half_close_frees_the_session_and_ends_the_stream() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut session = draft.open(&[1; 40], 1).await;
    session.advance(&[], 4).await.unwrap();
    draft.metric_becomes(MEMORY, 48.0).await;
    let Session { requests, mut responses, .. } = session;
    drop(requests);
    assert!(responses.message().await.unwrap().is_none(), "a half-close is a proper end");
    draft.metric_becomes(OPEN, 0.0).await;
    draft.metric_becomes(MEMORY, 0.0).await;
}

#[tokio::test]
async fn half_close_during_an_advance_abandons_it() {
    let (model, record) = Recorded::new(mixed_model().with_delay(Duration::from_millis(30)));
    let mut options = options();
    options.max_draft_length = NonZeroUsize::new(64).unwrap();
    let draft = Draft::of_model(model, options);
    let mut session = draft.open(&[1, 2], 1).await;
    let advance = session.advance_message(&[], 64);
    session.send(Some(Message::Advance(advance))).await;
    draft.metric_reaches("specfleet_draft_step_sessions_total", 2.0).await;
    let Session { requests, mut responses, .. } = session;
    drop(requests);
    assert!(responses.message().await.unwrap().is_none(), "a half-close is a proper end");
    draft.metric_becomes(OPEN, 0.0).await;
    let n_passes = record.lock().unwrap().len();
    assert!(n_passes < 64, "the draft should have been abandoned, but {n_passes} passes were made");
    assert_eq!(draft.metric("specfleet_draft_abandoned_total"), 1.0);
}

#[tokio::test]
async fn dropping_the_stream_abandons_the_draft_and_frees_the_session() {
    let (model, record) = Recorded::new(mixed_model().with_delay(Duration::from_millis(30)));
    let mut options = options();
    options.max_draft_length = NonZeroUsize::new(64).unwrap();
    let draft = Draft::of_model(model, options);
    let mut session = draft.open(&[1, 2], 1).await;
    let advance = session.advance_message(&[], 64);
    session.send(Some(Message::Advance(advance))).await;
    draft.metric_reaches("specfleet_draft_step_sessions_total", 2.0).await;
    drop(session);
    draft.metric_becomes(OPEN, 0.0).await;
    draft.metric_becomes(MEMORY, 0.0).await;
    let n_passes = record.lock().unwrap().len();
    assert!(n_passes < 64, "the draft should have been abandoned, but {n_passes} passes were made");
    assert_eq!(draft.metric("specfleet_draft_proposals_total"), 0.0);
    assert_eq!(draft.metric("specfleet_draft_abandoned_total"), 1.0);
}

#[tokio::test]
async fn a_hundred_sessions_in_every_manner_leave_nothing_behind() {
    let draft = Draft::of_model(mixed_model(), options());
    for number in 0..100_u32 {
        let mut session = draft.open(&vec![number % 16; 1 + number as usize], 1).await;
        match number % 4 {
            0 => drop(session),
            1 => drop(session.advance(&[], 3).await.unwrap()),
            2 => drop(session.ask(Message::Open(Default::default())).await),
            _ => {
                let Session { requests, mut responses, .. } = session;
                drop(requests);
                while responses.message().await.unwrap().is_some() {}
            }
        }
        let request = draft.propose_message(&[number % 16], 1, 2);
        draft.client.clone().propose(request).await.unwrap();
    }
    draft.metric_becomes(OPEN, 0.0).await;
    draft.metric_becomes(MEMORY, 0.0).await;
    assert_eq!(draft.metric("specfleet_draft_sessions_opened_total"), 200.0);
}

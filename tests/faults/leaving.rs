//! Clients that go away: their work goes with them, their memory too, and the next turn finds nothing of it.

use std::time::Duration;

use futures::StreamExt;
use specfleet_client::{Event, v1::GenerateRequest};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    outcome::leave_after,
    scripted_pair::{ScriptedPair, request, settings},
};

use crate::support::{await_idle_draft, certain, plain, winding};

async fn pair(step: Duration) -> ScriptedPair {
    ScriptedPair::of_models(certain(winding).with_delay(step), certain(winding), settings()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_frees_both_services_and_is_counted_once() {
    let pair = pair(Duration::from_millis(2)).await;
    let outcomes = |outcome: &str| pair.verifier.metric("specfleet_verifier_requests_total", outcome);
    leave_after(&pair.client, request(&[1], 4000), 1).await.unwrap();
    pair.verifier.wait_until_idle().await;
    await_idle_draft(&pair.draft.metrics).await;
    assert_eq!((outcomes("cancelled"), outcomes("finished")), (1.0, 0.0));
    pair.generate(request(&[1], 10)).await;
    assert_eq!((outcomes("cancelled"), outcomes("finished")), (1.0, 1.0), "a normal end is no cancellation");
}

/// A user who interrupts and types on at once: the next turn begins while the last one is being dropped. It is the words
/// that the client has seen that count, not what was decoded after it left.
#[tokio::test(flavor = "multi_thread")]
async fn a_quick_next_turn_does_not_meet_the_last_one() {
    let pair = pair(Duration::ZERO).await;
    let mut history: Vec<TokenId> = vec![1, 2, 3];
    for turn in 0..200 {
        let wire = GenerateRequest { max_tokens: None, ..request(&history, 0) };
        let mut events = pair.client.generate(wire).await.unwrap();
        let seen = loop {
            if let Event::Committed(round) = events.next().await.unwrap().unwrap() {
                break round.tokens.iter().map(|token| token.token_id).collect::<Vec<_>>();
            }
        };
        drop(events);
        assert_eq!(seen, plain(winding, &history, seen.len()), "turn {turn}");
        history.extend(seen);
        history.push(turn % 15);
    }
    let last = pair.generate(request(&history, 50)).await;
    assert_eq!(last.token_ids(), plain(winding, &history, 50));
    pair.verifier.wait_until_idle().await;
    assert_eq!(pair.verifier.metric("specfleet_verifier_requests_total", "cancelled"), 200.0);
}

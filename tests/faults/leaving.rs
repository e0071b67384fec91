//! Clients that go away: their work goes with them, their memory too, and the next turn finds nothing of it.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use specfleet_client::{
    Event,
    v1::{DraftState, GenerateRequest},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    http::{Stream, post_json},
    outcome::leave_after,
    scripted_pair::{ScriptedPair, request, settings},
};

use crate::support::{Served, await_idle_draft, certain, plain, serve_draft, serve_verifier, until, winding};

const COMPLETIONS: &str = "/v1/completions";

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

/// Verifier and draft on ports.
async fn served(step: Duration) -> (Served, Served) {
    let draft = serve_draft(certain(winding)).await;
    let target = certain(winding).with_delay(step);
    let verifier = serve_verifier(target, &[draft.address], settings().verifier, Duration::ZERO).await;
    verifier.await_draft(DraftState::Ready).await;
    (verifier, draft)
}

/// What spells these ids.
fn letters(ids: &[TokenId]) -> String {
    ids.iter().map(|&id| char::from(b'a' + id as u8)).collect()
}

/// Whichever way somebody has asked: a step that runs is finished, one more may have begun before the news came.
#[tokio::test(flavor = "multi_thread")]
async fn work_ends_within_two_rounds_of_a_client_that_leaves_in_all_three_ways() {
    // Long, so that the news of a client that left comes in time even on a busy machine.
    let (verifier, draft) = served(Duration::from_millis(150)).await;
    let rounds = || verifier.metric("specfleet_verifier_rounds_total", "");
    let cancelled = || verifier.metric("specfleet_verifier_requests_total", "cancelled");
    let some_rounds = async |before: f64| until("some rounds", async || rounds() >= before + 2.0).await;
    let body = |stream: bool| json!({"prompt": [[1]], "max_tokens": 4000, "temperature": 0, "stream": stream});
    for way in ["grpc", "sse", "json"] {
        let (rounds_before, cancelled_before) = (rounds(), cancelled());
        let seen = match way {
            "grpc" => {
                let mut events = verifier.client().generate(request(&[1], 4000)).await.unwrap();
                events.next().await.unwrap().unwrap();
                some_rounds(rounds_before).await;
                drop(events);
                rounds()
            }
            _ => {
                let mut connection = Stream::open(verifier.http(), COMPLETIONS, &[], &body(way == "sse"));
                if way == "sse" {
                    connection.event().unwrap();
                }
                some_rounds(rounds_before).await;
                drop(connection);
                rounds()
            }
        };
        verifier.await_idle().await;
        await_idle_draft(&draft.metrics).await;
        assert!(rounds() <= seen + 2.0, "{way}: {} rounds for nobody", rounds() - seen);
        assert_eq!(cancelled(), cancelled_before + 1.0, "{way}: one end");
    }
    post_json(verifier.http(), COMPLETIONS, &json!({"prompt": [[1]], "max_tokens": 3}));
    assert_eq!(cancelled(), 3.0, "a normal end is no cancellation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quick_next_turn_over_http_does_not_meet_the_last_one() {
    let (verifier, draft) = served(Duration::ZERO).await;
    let mut history: Vec<TokenId> = vec![1, 2, 3];
    for turn in 0..200 {
        let body = json!({"prompt": [history], "max_tokens": 100_000, "temperature": 0, "stream": true});
        let mut connection = Stream::open(verifier.http(), COMPLETIONS, &[], &body);
        let chunk = connection.event().unwrap();
        drop(connection);
        let text = chunk["choices"][0]["text"].as_str().unwrap();
        let seen = plain(winding, &history, text.len());
        assert_eq!(text, letters(&seen), "turn {turn}");
        history.extend(seen);
        history.push(turn % 15);
    }
    let last =
        post_json(verifier.http(), COMPLETIONS, &json!({"prompt": [history], "max_tokens": 50, "temperature": 0}));
    assert_eq!(last["choices"][0]["text"], letters(&plain(winding, &history, 50)));
    verifier.await_idle().await;
    await_idle_draft(&draft.metrics).await;
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "cancelled"), 200.0);
}

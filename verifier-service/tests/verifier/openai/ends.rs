//! How calls end: by failures, by deadlines, by clients that leave. Nobody may take half an answer for a whole one, and
//! nothing may be left behind.

use std::time::Duration;

use serde_json::{Value, json};
use specfleet_model::scripted::ScriptedModel;
use specfleet_speculation::TokenId;

use super::{CHAT, COMPLETIONS, chat, completion, ok, refusal, spelled, with};
use crate::support::{FakeDraft, LONG, N_VOCAB, Verifier, greedy_target, one_hot, options};

/// A target whose third row after a prompt of one token is unusable.
fn failing() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |prefix: &[TokenId]| match prefix.len() {
        3 => vec![f32::NAN; N_VOCAB],
        n => one_hot(n as TokenId),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_on_the_way_is_an_error_and_never_an_ending() {
    let verifier = Verifier::start(failing(), Vec::new(), options());
    let http = verifier.serve_http().await;
    for (path, body) in [(CHAT, chat("a", 9)), (COMPLETIONS, completion("a", 9))] {
        let mut reply = http.post(path, &with(body.clone(), &json!({"stream": true}))).await;
        let events: Vec<Value> =
            reply.events().await.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let (error, chunks) = events.split_last().unwrap();
        assert_eq!(
            (&error["error"]["code"], &error["error"]["type"]),
            (&json!("model_failed"), &json!("server_error"))
        );
        let choices: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]).collect();
        assert!(choices.iter().all(|choice| choice["finish_reason"].is_null()), "{chunks:?}");
        let text: String = choices
            .iter()
            .filter_map(|choice| choice["delta"]["content"].as_str().or(choice["text"].as_str()))
            .collect();
        assert_eq!(text, "bc", "what was verified before is shown");

        let (status, error) = refusal(http.post(path, &body).await).await;
        assert_eq!((status, &error["code"]), (500, &json!("model_failed")));
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_call_and_keeps_what_was_verified() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    let deadline = [("request-timeout-ms", "200")];
    let stream = with(chat("a", 1000), &json!({"stream": true})).to_string();
    let mut events = http.send("POST", CHAT, &deadline, &stream).await.events().await;
    let last: Value = serde_json::from_str(&events.pop().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "deadline_exceeded");
    assert!(events.len() > 2, "the role and some text: {events:?}");

    let reply = http.send("POST", CHAT, &deadline, &chat("a", 1000).to_string()).await;
    assert_eq!(reply.headers["x-should-retry"], "false");
    let (status, error) = refusal(reply).await;
    assert_eq!((status, &error["code"]), (504, &json!("deadline_exceeded")));
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "deadline"), 2.0);
    verifier.assert_idle().await;
}

/// The engine goes on for others, and the stream ends with an error that says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_loses_its_stream_alone() {
    let verifier = Verifier::start(greedy_target(|_| LONG), Vec::new(), options());
    let http = verifier.serve_http().await;
    let mut reply = http.post(CHAT, &with(chat("a", 4000), &json!({"stream": true}))).await;
    let ended = async || verifier.metric("specfleet_verifier_requests_total", "slow_client") == 1.0;
    verifier.until("the end of a stream that nobody reads", ended).await;
    ok(http, CHAT, &chat("a", 3)).await;
    let last: Value = serde_json::from_str(&reply.events().await.pop().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "slow_client");
    verifier.assert_idle().await;
}

/// In a stream, in a stream of several, and before any answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_has_cancelled_its_call() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(5));
    let verifier = Verifier::with_draft(target, &FakeDraft::following(spelled), options()).await;
    let http = verifier.serve_http().await;
    let cancelled = || verifier.metric("specfleet_verifier_requests_total", "cancelled");
    for (path, body, n_choices) in [
        (CHAT, with(chat("a", 4000), &json!({"stream": true})), 1.0),
        (COMPLETIONS, with(completion(json!(["a", "b"]), 4000), &json!({"stream": true, "n": 2})), 4.0),
    ] {
        let before = cancelled();
        let mut reply = http.post(path, &body).await;
        reply.event().await.unwrap();
        drop(reply);
        verifier.until("the cancelled requests", async || cancelled() == before + n_choices).await;
        verifier.assert_idle().await;
    }
    let before = cancelled();
    let connection = http.post_unread(CHAT, &chat("a", 4000)).await;
    verifier
        .until("a running request", async || verifier.metric("specfleet_verifier_running_requests", "") == 1.0)
        .await;
    drop(connection);
    verifier.until("the cancelled request", async || cancelled() == before + 1.0).await;
    verifier.assert_idle().await;
    ok(http, CHAT, &chat("a", 5)).await;
    assert_eq!(cancelled(), before + 1.0, "a normal end is no cancellation");
}

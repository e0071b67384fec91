//! How calls end: by failures, by deadlines, by clients that leave. Nobody may take half an answer for a whole one, and
//! nothing may be left behind.

use std::time::Duration;

use serde_json::{Value, json};
use specfleet_model::scripted::ScriptedModel;
use specfleet_speculation::TokenId;
use specfleet_verifier_service::Options;

use super::{CHAT, COMPLETIONS, chat, completion, continuation, ok, spelled, with};
use crate::support::{END, FakeDraft, LONG, N_VOCAB, Verifier, greedy_target, one_hot, options};

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

        let reply = http.post(path, &body).await;
        assert_eq!(reply.status, 500);
        let answer = reply.json().await;
        assert_eq!(answer["error"]["code"], "model_failed");
        let choice = &answer["partial"]["choices"][0];
        assert_eq!(choice["message"]["content"].as_str().or(choice["text"].as_str()), Some("bc"), "{answer}");
        assert_eq!(choice["finish_reason"], Value::Null);
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_call_and_keeps_what_was_verified() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    let deadline = [("request-timeout-ms", "800")];
    let stream = with(chat("a", 1000), &json!({"stream": true})).to_string();
    let mut events = http.send("POST", CHAT, &deadline, &stream).await.events().await;
    let last: Value = serde_json::from_str(&events.pop().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "deadline_exceeded");
    assert!(events.len() > 2, "the role and some text: {events:?}");

    let reply = http.send("POST", CHAT, &deadline, &chat("a", 1000).to_string()).await;
    assert_eq!((reply.status, reply.headers["x-should-retry"].as_str()), (504, "false"));
    let answer = reply.json().await;
    assert_eq!(answer["error"]["code"], "deadline_exceeded");
    let partial = &answer["partial"];
    let text = partial["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.len() > 1 && continuation("a", 1000).starts_with(text), "{text:?}");
    assert_eq!(partial["usage"]["completion_tokens"], text.len(), "a letter is a token");
    assert_eq!(
        (&partial["object"], &partial["choices"][0]["finish_reason"]),
        (&json!("chat.completion"), &Value::Null)
    );
    assert_eq!(verifier.metric("specfleet_verifier_requests_total", "deadline"), 2.0);
    verifier.assert_idle().await;
}

/// The one that has ended is whole, and says so; of the others there is what was verified.
#[tokio::test(flavor = "multi_thread")]
async fn continuations_that_ended_before_the_deadline_are_told_from_those_that_did_not() {
    let target = |prefix: &[TokenId]| if prefix[0] == 1 && prefix.len() == 4 { END } else { spelled(prefix) };
    let verifier = Verifier::start(greedy_target(target).with_delay(Duration::from_millis(20)), Vec::new(), options());
    let http = verifier.serve_http().await;
    let body = with(completion(json!([[0], [1]]), 1000), &json!({"logprobs": 0})).to_string();
    let answer = http.send("POST", COMPLETIONS, &[("request-timeout-ms", "800")], &body).await.json().await;
    assert_eq!(answer["error"]["code"], "deadline_exceeded");
    let [open, ended] = &answer["partial"]["choices"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!((&open["finish_reason"], &ended["finish_reason"]), (&Value::Null, &json!("stop")));
    assert_eq!(ended["text"], continuation("b", 3));
    let n_tokens = [open, ended].map(|choice| choice["logprobs"]["tokens"].as_array().unwrap().len());
    assert_eq!(n_tokens[1], 4, "the end token counts");
    assert_eq!(answer["partial"]["usage"]["completion_tokens"], n_tokens.iter().sum::<usize>());
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_was_verified_there_is_no_partial_answer() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), Options { max_sequences: 1, ..options() });
    let http = verifier.serve_http().await;
    let mut in_its_place = http.post(CHAT, &with(chat("a", 4000), &json!({"stream": true}))).await;
    in_its_place.event().await.unwrap();
    let reply = http.send("POST", CHAT, &[("request-timeout-ms", "50")], &chat("a", 9).to_string()).await;
    assert_eq!(reply.status, 504);
    assert_eq!(reply.json().await.get("partial"), None);
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

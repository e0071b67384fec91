//! What cannot be answered is refused, in words, with the name of the field and the status that clients act upon.

use std::time::Duration;

use serde_json::{Value, json};
use specfleet_service::{Metrics, Readiness, Shutdown};
use specfleet_verifier_service::{Http, Options};

use super::{CHAT, COMPLETIONS, chat, completion, ok, refusal, spelled, with};
use crate::support::{HttpClient, Verifier, greedy_target, options};

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_field_is_named() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let cases = [
        (json!({"temperature": -1}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"temperature": 1e300}), "temperature"),
        (json!({"top_p": 0}), "top_p"),
        (json!({"top_k": -2}), "top_k"),
        (json!({"min_p": 2}), "min_p"),
        (json!({"presence_penalty": 3}), "presence_penalty"),
        (json!({"frequency_penalty": -3}), "frequency_penalty"),
        (json!({"repetition_penalty": 0}), "repetition_penalty"),
        (json!({"logit_bias": {"x": 1}}), "logit_bias"),
        (json!({"logit_bias": {"99": 1}}), "logit_bias"),
        (json!({"logit_bias": {"1": "much"}}), "logit_bias.1"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"n": 0}), "n"),
        (json!({"n": 1000}), "n"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"stop_token_ids": [99]}), "stop_token_ids"),
        (json!({"stop": ""}), "stop"),
        (json!({"stop": ["a", ""]}), "stop"),
        (json!({"stop": 7}), "stop"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"speculation": {"max_draft_length": 100}}), "speculation.max_draft_length"),
        (json!({"speculation": {"pin": "x"}}), "speculation.pin"),
        (json!({"speculation": {"rule": "best"}}), "speculation.rule"),
        (json!({"speculation": {"draft_length": 1}}), "speculation.draft_length"),
    ];
    for (field, param) in cases {
        for (path, body) in [(CHAT, chat("abc", 5)), (COMPLETIONS, completion("abc", 5))] {
            let (status, error) = refusal(http.post(path, &with(body, &field)).await).await;
            assert_eq!((status, &error["param"]), (400, &json!(param)), "{field}: {error}");
            assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!("invalid_value")));
            let name = param.split('.').next_back().unwrap();
            assert!(error["message"].as_str().unwrap().contains(name), "{error}");
        }
    }
    ok(http, CHAT, &chat("abc", 5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_honoured_is_refused_and_never_dropped() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let tool = json!({"type": "function", "function": {"name": "f"}});
    let in_chat = [
        json!({"tools": [tool]}),
        json!({"tool_choice": "required"}),
        json!({"response_format": {"type": "json_object"}}),
        json!({"response_format": {"type": "json_schema", "json_schema": {}}}),
        json!({"audio": {"voice": "alloy"}}),
        json!({"modalities": ["text", "audio"]}),
        json!({"continue_final_message": true}),
        json!({"chat_template": "{{ x }}"}),
    ];
    let in_completions = [json!({"suffix": "x"}), json!({"best_of": 3}), json!({"guided_regex": "a*"})];
    let cases = in_chat.iter().map(|field| (CHAT, chat("abc", 5), field));
    for (path, body, field) in
        cases.chain(in_completions.iter().map(|field| (COMPLETIONS, completion("abc", 5), field)))
    {
        let (status, error) = refusal(http.post(path, &with(body, field)).await).await;
        let name = field.as_object().unwrap().keys().next().unwrap();
        assert_eq!((status, &error["code"], &error["param"]), (400, &json!("unsupported_parameter"), &json!(name)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_and_what_nobody_knows_is_let_through() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let harmless = json!({
        "user": "somebody", "metadata": {"a": "b"}, "unheard_of": [1, 2], "service_tier": "auto",
        "response_format": {"type": "text"}, "tools": [], "tool_choice": "none", "functions": null,
        "parallel_tool_calls": true, "store": false, "suffix": null, "best_of": 1, "n": 1, "top_k": -1, "seed": null,
        "stop_token_ids": null, "speculation": null, "stream_options": null, "max_completion_tokens": null,
        "logit_bias": null, "stream": null, "echo": false,
    });
    for (path, body) in [(CHAT, chat("abc", 5)), (COMPLETIONS, completion("abc", 5))] {
        let plain = ok(http, path, &body).await;
        assert_eq!(ok(http, path, &with(body, &harmless)).await["choices"], plain["choices"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_rendered_are_refused() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    for message in [
        json!({"role": "tool", "content": "a", "tool_call_id": "x"}),
        json!({"role": "wizard", "content": "a"}),
        json!({"role": "user"}),
        json!({"role": "user", "content": null}),
        json!({"role": "user", "content": 7}),
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
        json!({"role": "user", "content": [{"type": "text"}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "x"}]}),
        json!({"content": "a"}),
    ] {
        let body = json!({"messages": [{"role": "user", "content": "a"}, message]});
        let (status, error) = refusal(http.post(CHAT, &body).await).await;
        assert_eq!(status, 400);
        assert!(error["param"].as_str().unwrap().starts_with("messages[1]"), "{message}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_of_this_api_is_refused_in_its_form() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    for body in ["", "{", "[]", "null", "{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]}"] {
        let (status, error) = refusal(http.send("POST", CHAT, &[], body).await).await;
        assert_eq!((status, &error["code"]), (400, &json!("invalid_value")), "{body}");
    }
    assert_eq!(refusal(http.post(CHAT, &json!({})).await).await.0, 400);
    assert_eq!(refusal(http.get("/v1/embeddings").await).await.0, 404);
    assert_eq!(refusal(http.get(CHAT).await).await.0, 405);
    let (status, error) = refusal(http.post(CHAT, &with(chat("a", 1), &json!({"model": "gpt"}))).await).await;
    assert_eq!((status, &error["code"]), (404, &json!("model_not_found")));
    let (status, error) = refusal(http.send("POST", CHAT, &[("request-timeout-ms", "soon")], "{}").await).await;
    assert_eq!((status, &error["param"]), (400, &json!("request-timeout-ms")));
    let long_name = "x".repeat(500);
    let named = [("x-request-id", long_name.as_str())];
    let (status, error) = refusal(http.send("POST", CHAT, &named, &chat("a", 1).to_string()).await).await;
    assert_eq!((status, &error["param"]), (400, &json!("x-request-id")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_fills_the_context_is_refused_and_the_rest_is_room() {
    let target = greedy_target(spelled).with_context_length(16);
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    for n_prompt in 10..16 {
        let answer =
            ok(http, CHAT, &json!({"messages": [{"role": "user", "content": "a".repeat(n_prompt)}], "temperature": 0}))
                .await;
        assert_eq!(
            (&answer["usage"]["total_tokens"], &answer["choices"][0]["finish_reason"]),
            (&json!(16), &json!("length"))
        );
    }
    for n_prompt in [16, 17, 1000] {
        let (status, error) = refusal(http.post(COMPLETIONS, &completion(vec![0; n_prompt], 5)).await).await;
        assert_eq!((status, &error["code"]), (400, &json!("context_length_exceeded")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_room_is_told_when_to_come_again() {
    let options = Options { max_sequences: 1, max_queue: 1, ..options() };
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options);
    let http = verifier.serve_http().await;
    let stream = with(chat("a", 1000), &json!({"stream": true}));
    let held = [http.post(CHAT, &stream).await, http.post(CHAT, &stream).await];
    let reply = http.post(CHAT, &stream).await;
    assert_eq!((reply.headers["retry-after"].as_str(), reply.headers["retry-after-ms"].as_str()), ("1", "1000"));
    let (status, error) = refusal(reply).await;
    assert_eq!((status, &error["code"]), (429, &json!("overloaded")));
    let (status, error) = refusal(http.post(COMPLETIONS, &completion(json!(["a", "b", "c"]), 5)).await).await;
    assert_eq!((status, &error["param"]), (400, &json!("prompt")), "three would never find room");
    let two_of_two = with(completion(json!(["a", "b"]), 5), &json!({"n": 2}));
    assert_eq!(refusal(http.post(COMPLETIONS, &two_of_two).await).await.0, 400);
    drop(held);
    verifier.assert_idle().await;
    ok(http, CHAT, &chat("a", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_model_is_loaded_the_process_lives_and_calls_are_refused() {
    let metrics = Metrics::local().unwrap();
    let http = HttpClient::serve(Http::new(&metrics, Readiness::new(), Shutdown::new(Duration::ZERO))).await;
    assert_eq!((http.get("/health").await.status, http.get("/ready").await.status), (200, 503));
    for reply in [http.post(CHAT, &chat("a", 1)).await, http.get("/v1/models").await] {
        assert!(reply.headers.contains_key("retry-after"));
        let (status, error) = refusal(reply).await;
        assert_eq!((status, &error["code"]), (503, &json!("loading")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_leaves_finishes_what_it_can_and_says_what_it_cannot() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(2));
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    let stream = |n| with(chat("a", n), &json!({"stream": true}));
    let (mut short, mut endless) = (http.post(CHAT, &stream(5)).await, http.post(CHAT, &stream(4000)).await);
    short.event().await.unwrap();
    endless.event().await.unwrap();
    verifier.shutdown.begin();
    let (status, error) = refusal(http.post(CHAT, &chat("a", 1)).await).await;
    assert_eq!((status, &error["code"]), (503, &json!("draining")));
    assert_eq!(http.get("/health").await.status, 200);
    assert_eq!(short.events().await.pop().as_deref(), Some("[DONE]"));
    let last: Value = serde_json::from_str(&endless.events().await.pop().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "draining");
}

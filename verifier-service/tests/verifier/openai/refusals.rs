//! What cannot be answered is refused, in words, with the name of the field and the status that clients act upon.

use std::time::{Duration, Instant};

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
    let in_chat = [
        json!({"functions": [{"name": "f"}]}),
        json!({"function_call": {"name": "f"}}),
        json!({"guided_json": {"type": "object"}}),
        json!({"audio": {"voice": "alloy"}}),
        json!({"modalities": ["text", "audio"]}),
        json!({"continue_final_message": true}),
        json!({"chat_template": "{{ x }}"}),
        json!({"add_special_tokens": true}),
        json!({"reasoning_format": "none"}),
        json!({"include_reasoning": false}),
        json!({"separate_reasoning": false}),
    ];
    let in_completions = [
        json!({"suffix": "x"}),
        json!({"top_logprobs": 2}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        json!({"tool_choice": "required"}),
    ];
    let in_both = [
        json!({"best_of": 3}),
        json!({"guided_regex": "a*"}),
        json!({"regex": "a*"}),
        json!({"ebnf": "root ::= \"a\""}),
        json!({"repeat_penalty": 1.1}),
        json!({"n_predict": 9}),
        json!({"dry_multiplier": 0.8}),
        json!({"top_n_sigma": 1.0}),
        json!({"repeat_last_n": 64}),
        json!({"no_repeat_ngram_size": 3}),
        json!({"n_probs": 5}),
        json!({"post_sampling_probs": true}),
        json!({"t_max_predict_ms": 500}),
        json!({"stop_regex": "a+"}),
        json!({"no_stop_trim": true}),
        json!({"xtc_probability": 0.5}),
        json!({"dynatemp_range": 0.5}),
        json!({"samplers": ["top_k"]}),
        json!({"spaces_between_special_tokens": false}),
        json!({"stream_options.continuous_usage_stats": true}),
    ];
    let in_chat = in_chat.iter().chain(&in_both).map(|field| (CHAT, chat("abc", 5), field));
    let in_completions = in_completions.iter().chain(&in_both).map(|field| (COMPLETIONS, completion("abc", 5), field));
    for (path, body, field) in in_chat.chain(in_completions) {
        let (name, value) = field.as_object().unwrap().iter().next().unwrap();
        let sent = name.split_once('.').map(|(outer, inner)| json!({outer: {inner: value}}));
        let (status, error) = refusal(http.post(path, &with(body, sent.as_ref().unwrap_or(field))).await).await;
        let expected = (400, &json!("unsupported_parameter"), &json!(name));
        assert_eq!((status, &error["code"], &error["param"]), expected, "{path} {field}");
    }
}

/// The tokens of a conversation are those that an answer to it would be given.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_template_honours_is_refused_by_tokenize_too() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    for field in [
        json!({"add_special_tokens": true}),
        json!({"continue_final_message": true}),
        json!({"chat_template": "{{ x }}"}),
        json!({"chat_template_kwargs": {"x": 1}}),
    ] {
        let (name, _) = field.as_object().unwrap().iter().next().unwrap();
        let body = json!({"messages": [{"role": "user", "content": "a"}]});
        let (status, error) = refusal(http.post("/tokenize", &with(body, &field)).await).await;
        assert_eq!((status, &error["param"]), (400, &json!(name)), "{error}");
        ok(http, "/tokenize", &with(json!({"prompt": "a"}), &field)).await;
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
        "logit_bias": null, "stream": null, "echo": false, "repeat_penalty": 1.0, "dry_multiplier": 0,
        "include_reasoning": null, "stop_regex": null, "no_stop_trim": false, "top_n_sigma": -1.0, "n_probs": 0,
        "xtc_probability": 0.0, "dynatemp_range": 0.0, "samplers": null, "spaces_between_special_tokens": true,
    });
    for (path, body) in [(CHAT, chat("abc", 5)), (COMPLETIONS, completion("abc", 5))] {
        let plain = ok(http, path, &body).await;
        for more in [
            &harmless,
            &json!({"n": null, "best_of": 1}),
            &json!({"n": null, "best_of": null}),
            &json!({"stream_options": {"include_usage": true, "continuous_usage_stats": false}}),
        ] {
            assert_eq!(ok(http, path, &with(body.clone(), more)).await["choices"], plain["choices"], "{more}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_cannot_be_rendered_are_refused() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    for message in [
        json!({"role": "function", "name": "f", "content": "a"}),
        json!({"role": "wizard", "content": "a"}),
        json!({"role": "user"}),
        json!({"role": "user", "content": null}),
        json!({"role": "user", "content": 7}),
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
        json!({"role": "user", "content": [{"type": "text"}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "x"}]}),
        json!({"role": "assistant", "content": "a", "function_call": {"name": "f", "arguments": "{}"}}),
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
}

/// By which a caller finds the call in the server's logs: its own name for it if that is of use, else a fresh one.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_a_name_refusals_too() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let good = chat("a", 1).to_string();
    let cases: [(&str, &str, &str, u16); 9] = [
        ("POST", CHAT, &good, 200),
        ("POST", CHAT, "{", 400),
        ("POST", CHAT, "{\"messages\": 7}", 400),
        ("POST", COMPLETIONS, "{\"model\": \"gpt\", \"prompt\": \"a\"}", 404),
        ("GET", CHAT, "", 405),
        ("GET", "/nowhere", "", 404),
        ("POST", "/tokenize", "{}", 400),
        ("GET", "/v1/models", "", 200),
        ("GET", "/health", "", 200),
    ];
    let long = "x".repeat(129);
    for (method, path, body, status) in cases {
        let name = async |given: Option<&str>| {
            let headers = given.map(|name| ("x-request-id", name));
            let reply = http.send(method, path, headers.as_slice(), body).await;
            assert_eq!(reply.status, status, "{method} {path} {body}");
            reply.headers.get("x-request-id").cloned().unwrap_or_else(|| panic!("no name: {method} {path} {body}"))
        };
        assert_eq!(name(Some("mine-7")).await, "mine-7");
        for useless in [None, Some(&*long), Some("with a space")] {
            let fresh = name(useless).await;
            assert!(fresh.len() == 36 && Some(&*fresh) != useless, "{fresh}");
        }
    }
    let mut streamed = http
        .send("POST", CHAT, &[("x-request-id", "mine-8")], &with(chat("a", 1), &json!({"stream": true})).to_string())
        .await;
    assert_eq!(streamed.headers["x-request-id"], "mine-8");
    assert!(streamed.event().await.unwrap().contains("chatcmpl-mine-8"));
    let longest = "x".repeat(120);
    let several = completion(json!(["a", "b", "c"]), 1).to_string();
    let reply = http.send("POST", COMPLETIONS, &[("x-request-id", &longest)], &several).await;
    assert_eq!((reply.status, &reply.headers["x-request-id"]), (200, &longest), "each prompt has a longer one");
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
    for n_prompt in [16, 17, 1000, 1_000_000] {
        let mut prompts = vec![json!("a".repeat(n_prompt)), json!(vec![0; n_prompt]), json!([[0], vec![0; n_prompt]])];
        if n_prompt < 1_000_000 {
            prompts.push(json!(["a", "a".repeat(n_prompt)]));
        }
        for prompt in prompts {
            let (status, error) = refusal(http.post(COMPLETIONS, &completion(prompt, 5)).await).await;
            assert_eq!((status, &error["code"]), (400, &json!("context_length_exceeded")), "{error}");
        }
        let (status, error) = refusal(http.post(CHAT, &chat(&"a".repeat(n_prompt), 5)).await).await;
        assert_eq!((status, &error["code"]), (400, &json!("context_length_exceeded")), "{error}");
        if n_prompt == 1_000_000 {
            let n_read = 16 * 16;
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(&format!("of {n_read} tokens or more")), "read to where it is certain: {message}");
        }
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let reply = http.announce(CHAT, "content-length: 5000000").await;
    let (status, error) = refusal(reply).await;
    assert_eq!((status, &error["code"]), (413, &json!("body_too_large")));
}

/// Others upload at their leisure, more than there is room for, and nobody else notices.
#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_that_do_not_arrive_hold_up_nobody_but_each_other() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(http.begin(CHAT, "content-length: 1000000").await);
    }
    let refused = async || {
        let reply = http.announce(CHAT, "transfer-encoding: chunked").await;
        (reply.status, reply.headers.contains_key("retry-after"))
    };
    let small = chat("abc", 5);
    let (refused, answered) = tokio::join!(refused(), ok(http, CHAT, &small));
    assert_eq!(refused, (429, true));
    assert_eq!(answered["usage"]["completion_tokens"], 5);
    drop(stalled);
    let large = with(chat("abc", 5), &json!({"padding": "x".repeat(100_000)}));
    assert_eq!(ok(http, CHAT, &large).await["choices"], answered["choices"]);
}

/// From its arrival on, also while its body waits for room, or is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_counts_before_the_body_is_there() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let mut stalled = Vec::new();
    let too_late = async |length: &str| {
        for path in [CHAT, COMPLETIONS, "/tokenize"] {
            let started = Instant::now();
            let reply = http.announce(path, &format!("{length}\r\nrequest-timeout-ms: 300")).await;
            assert_eq!(reply.headers.get("x-should-retry").map(String::as_str), Some("false"));
            let (status, error) = refusal(reply).await;
            assert_eq!((status, &error["code"]), (504, &json!("deadline_exceeded")), "{path}: {error}");
            assert!(error["message"].as_str().unwrap().contains("300ms"), "{error}");
            let waited = started.elapsed();
            assert!((Duration::from_millis(300)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
        }
    };
    too_late("content-length: 50").await;
    for _ in 0..8 {
        stalled.push(http.begin(CHAT, "content-length: 1000000").await);
    }
    too_late("content-length: 1000000").await;
    drop(stalled);
    ok(http, CHAT, &chat("abc", 5)).await;
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_room_is_told_when_to_come_again() {
    let options = Options { max_sequences: 1, max_queue: 1, ..options() };
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options);
    let http = verifier.serve_http().await;
    let stream = with(chat("a", 1000), &json!({"stream": true}));
    // One runs and one waits, who is the next to leave; then the other. Each takes fifteen steps.
    for _ in 0..3 {
        let body = chat("a", 15);
        tokio::join!(ok(http, CHAT, &body), ok(http, CHAT, &body));
    }
    let held = [http.post(CHAT, &stream).await, http.post(CHAT, &stream).await];
    let reply = http.post(CHAT, &stream).await;
    let header = |name: &str| reply.headers[name].parse::<u64>().unwrap();
    let millis = header("retry-after-ms");
    assert!((280..5000).contains(&millis), "{millis} ms, where a place takes 300 ms on a machine without other work");
    assert_eq!(header("retry-after"), millis.div_ceil(1000), "whole seconds for those who know no other");
    let (status, error) = refusal(reply).await;
    assert_eq!((status, &error["code"]), (429, &json!("overloaded")));
    drop(held);
    let left = async || verifier.metric("specfleet_verifier_requests_total", "cancelled") == 2.0;
    verifier.until("both have left", left).await;
    verifier.assert_idle().await;
    let (status, error) = refusal(http.post(COMPLETIONS, &completion(json!(["a", "b", "c"]), 5)).await).await;
    assert_eq!((status, &error["param"]), (400, &json!("prompt")), "three would never find room");
    let two_of_two = with(completion(json!(["a", "b"]), 5), &json!({"n": 2}));
    assert_eq!(refusal(http.post(COMPLETIONS, &two_of_two).await).await.0, 400);
    ok(http, CHAT, &chat("a", 1)).await;
}

/// There are places, but they would come to their turn too late.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_would_last_too_long_is_not_joined() {
    let limit = Duration::from_millis(900);
    let options = Options { max_sequences: 1, max_queue_wait: limit, ..options() };
    let target = greedy_target(spelled).with_delay(Duration::from_millis(20));
    let verifier = Verifier::start(target, Vec::new(), options);
    let http = verifier.serve_http().await;
    // Some 300 ms from one to the next: the fourth in the queue would wait for longer than the limit, or, where a busy machine
    // looked late at who left first, one of the next.
    let body = chat("a", 15);
    tokio::join!(ok(http, CHAT, &body), ok(http, CHAT, &body), ok(http, CHAT, &body));
    let stream = with(chat("a", 4000), &json!({"stream": true}));
    let mut held = vec![http.post(CHAT, &stream).await];
    let refused = loop {
        let n_waiting = held.len() as f64 - 1.0;
        verifier
            .until("the queue", async || verifier.metric("specfleet_verifier_waiting_requests", "") == n_waiting)
            .await;
        let reply = http.post(CHAT, &stream).await;
        if reply.status != 200 {
            break reply;
        }
        held.push(reply);
    };
    assert!(held.len() <= 8, "{} were let in", held.len());
    assert!(refused.headers.contains_key("retry-after-ms"));
    let (status, error) = refusal(refused).await;
    assert_eq!((status, &error["code"]), (429, &json!("overloaded")));
    assert!(error["message"].as_str().unwrap().contains("this one may for 0.9 s"), "{error}");
    assert!(verifier.metric("specfleet_verifier_requests_total", "overloaded") >= 1.0);
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

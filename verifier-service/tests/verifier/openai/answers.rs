//! Whole answers and streams, for every form of a prompt.

use serde_json::{Value, json};
use specfleet_protocol::v1;

use super::{CHAT, COMPLETIONS, chat, chunks, completion, continuation, letters, ok, spelled, with};
use crate::support::{END, FakeDraft, Verifier, greedy_target, options, plain, request};

async fn drafted_verifier() -> Verifier {
    Verifier::with_draft(greedy_target(spelled), &FakeDraft::following(spelled), options()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_is_answered_in_the_form_that_clients_read() {
    let verifier = drafted_verifier().await;
    let answer = ok(verifier.serve_http().await, CHAT, &chat("abc", 10)).await;
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "scripted");
    assert!(answer["created"].as_u64().unwrap() > 1_600_000_000);
    let choices = json!([{
        "index": 0,
        "message": {"role": "assistant", "content": continuation("abc", 10), "refusal": null},
        "logprobs": null,
        "finish_reason": "length",
    }]);
    assert_eq!(answer["choices"], choices);
    let usage = &answer["usage"];
    assert_eq!([&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]], [3, 10, 13]);
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_chat_begins_with_the_role_and_ends_with_reason_account_and_done() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    let body = with(chat("abc", 10), &json!({"stream": true, "stream_options": {"include_usage": true}}));
    let chunks = chunks(http.post(CHAT, &body).await).await;
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["object"] == "chat.completion.chunk"));
    let first = &chunks[0]["choices"][0];
    assert_eq!(
        (&first["delta"], &first["finish_reason"]),
        (&json!({"role": "assistant", "content": ""}), &Value::Null)
    );
    let (account, rest) = chunks.split_last().unwrap();
    assert_eq!(account["choices"], json!([]));
    assert_eq!(account["usage"]["completion_tokens"], 10);
    let (end, pieces) = rest.split_last().unwrap();
    assert_eq!((&end["choices"][0]["delta"], &end["choices"][0]["finish_reason"]), (&json!({}), &json!("length")));
    let text: String = pieces.iter().map(|piece| piece["choices"][0]["delta"]["content"].as_str().unwrap()).collect();
    assert_eq!(text, continuation("abc", 10));
    assert!(rest.iter().all(|chunk| chunk.get("usage").is_none()), "one account, at the end");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_may_be_text_or_ids_and_there_may_be_several() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    for prompt in [json!("abc"), json!([0, 1, 2]), json!(["abc"]), json!([[0, 1, 2]])] {
        let answer = ok(http, COMPLETIONS, &completion(prompt.clone(), 5)).await;
        assert_eq!(answer["object"], "text_completion");
        let choices =
            json!([{"index": 0, "text": continuation("abc", 5), "logprobs": null, "finish_reason": "length"}]);
        assert_eq!(answer["choices"], choices, "{prompt}");
    }
    for prompt in [json!(["abc", "d", "ab"]), json!([[0, 1, 2], [3], [0, 1]])] {
        let answer = ok(http, COMPLETIONS, &with(completion(prompt, 5), &json!({"n": 2}))).await;
        let texts: Vec<_> =
            answer["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap()).collect();
        let expected = ["abc", "abc", "d", "d", "ab", "ab"].map(|prompt| continuation(prompt, 5));
        assert_eq!(texts, expected);
        assert_eq!(answer["choices"][4]["index"], 4);
        let usage = &answer["usage"];
        assert_eq!([&usage["prompt_tokens"], &usage["completion_tokens"]], [6, 30], "a prompt counts once");
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_several_prompts_keeps_them_apart() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    let body = with(completion(json!(["abc", "d"]), 9), &json!({"n": 2, "stream": true}));
    let chunks = chunks(http.post(COMPLETIONS, &body).await).await;
    for (index, prompt) in ["abc", "abc", "d", "d"].into_iter().enumerate() {
        let own = chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
        let own: Vec<_> = own.collect();
        let text: String = own.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
        assert_eq!(text, continuation(prompt, 9));
        let n_ends = own.iter().filter(|choice| choice["finish_reason"] == "length").count();
        assert_eq!((n_ends, &own.last().unwrap()["finish_reason"]), (1, &json!("length")));
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn echo_puts_the_prompt_first() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    let expected = "abc".to_owned() + &continuation("abc", 5);
    for prompt in [json!("abc"), json!([0, 1, 2])] {
        let body = with(completion(prompt, 5), &json!({"echo": true}));
        assert_eq!(ok(http, COMPLETIONS, &body).await["choices"][0]["text"], expected);
        let chunks = chunks(http.post(COMPLETIONS, &with(body, &json!({"stream": true}))).await).await;
        let text: String = chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().unwrap()).collect();
        assert_eq!(text, expected);
    }
}

/// A connection that is kept alive needs it, where chunks are not understood.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_answer_has_its_length() {
    let verifier = drafted_verifier().await;
    let mut reply = verifier.serve_http().await.post(COMPLETIONS, &completion("abc", 5)).await;
    let length = reply.headers["content-length"].parse();
    assert_eq!(length, Ok(reply.text().await.len()));
}

/// What a client takes for the next part of the text is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_without_text_is_no_chunk() {
    let verifier = drafted_verifier().await;
    let body = json!({"prompt": [[END]], "max_tokens": 5, "temperature": 0, "echo": true, "stream": true});
    let chunks = chunks(verifier.serve_http().await.post(COMPLETIONS, &body).await).await;
    let (ending, parts) = chunks.split_last().unwrap();
    assert_eq!(ending["choices"][0]["finish_reason"], "length");
    assert!(!parts.is_empty() && parts.iter().all(|part| part["choices"][0]["text"] != ""), "{parts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_consist_of_parts_and_the_developer_is_the_system() {
    let verifier = drafted_verifier().await;
    let messages = json!([
        {"role": "developer", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        {"role": "assistant", "content": "d", "refusal": null},
    ]);
    let body = json!({"messages": messages, "temperature": 0, "max_completion_tokens": 5});
    let answer = ok(verifier.serve_http().await, CHAT, &body).await;
    assert_eq!(answer["choices"][0]["message"]["content"], continuation("abcd", 5));
}

/// Every setting arrives: each of these changes the text of a model that knows only this.
#[tokio::test(flavor = "multi_thread")]
async fn settings_do_what_they_do_over_grpc() {
    let target = |prefix: &[u32]| if prefix.len() < 6 { spelled(prefix) } else { END };
    let verifier = Verifier::with_draft(greedy_target(target), &FakeDraft::following(target), options()).await;
    let http = verifier.serve_http().await;
    let text = async |more: Value| {
        let answer = ok(http, COMPLETIONS, &with(json!({"prompt": [0, 1], "temperature": 0}), &more)).await;
        let choice = &answer["choices"][0];
        (choice["text"].as_str().unwrap().to_owned(), choice["finish_reason"].as_str().unwrap().to_owned())
    };
    let free = letters(&plain(target, &[0, 1], 4));
    assert_eq!(text(json!({})).await, (free.clone(), "stop".to_owned()));
    assert_eq!(text(json!({"max_tokens": 2})).await, (free[..2].to_owned(), "length".to_owned()));
    let second = plain(target, &[0, 1], 2)[1];
    assert_eq!(text(json!({"stop_token_ids": [second]})).await, (free[..1].to_owned(), "stop".to_owned()));
    assert_eq!(text(json!({"ignore_eos": true, "max_tokens": 5})).await, (free.clone(), "length".to_owned()));
    let banned = json!({"logit_bias": {second.to_string(): -100}});
    assert_ne!(text(banned).await.0.as_bytes()[1], free.as_bytes()[1]);
    assert!(text(json!({"min_tokens": 8})).await.0.len() >= 8);
    let stopped = |min_tokens: u32| text(json!({"stop": free[2..3], "min_tokens": min_tokens}));
    assert_eq!(stopped(2).await, (free[..2].to_owned(), "stop".to_owned()), "the third token may complete it");
    assert_eq!(stopped(3).await.0, free, "and need not, where three come before");
    for stop in [json!(free[1..3]), json!(["zzz", free[1..3]])] {
        assert_eq!(text(json!({"stop": stop})).await, (free[..1].to_owned(), "stop".to_owned()));
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_gives_the_text_that_it_gives_over_grpc() {
    let flat = |_: &[u32]| (0..16).map(|id| if id < 14 { 0.0 } else { -30.0 }).collect::<Vec<f32>>();
    let target = specfleet_model::scripted::ScriptedModel::from_fn(16, flat);
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    for seed in [7_i64, -7, i64::MAX] {
        let wire = v1::GenerateRequest {
            seed: Some(seed.cast_unsigned()),
            sampling: Some(v1::SamplingParams { top_k: Some(5), ..Default::default() }),
            ..request(&[0, 1], 20)
        };
        let expected = verifier.generate(wire).await.text();
        let body = json!({"prompt": [0, 1], "max_tokens": 20, "seed": seed, "top_k": 5});
        assert_eq!(ok(http, COMPLETIONS, &body).await["choices"][0]["text"], expected);
    }
    let unseeded = json!({"prompt": [0, 1], "max_tokens": 20});
    let texts = [ok(http, COMPLETIONS, &unseeded).await, ok(http, COMPLETIONS, &unseeded).await];
    assert_ne!(texts[0]["choices"], texts[1]["choices"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_become_ids_and_texts_again() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    let answer = ok(http, "/tokenize", &json!({"prompt": "abc", "return_token_strs": true})).await;
    let expected = json!({"count": 3, "max_model_len": 4096, "tokens": [0, 1, 2], "token_strs": ["a", "b", "c"]});
    assert_eq!(answer, expected);
    let messages = json!({"messages": [{"role": "user", "content": "dab"}]});
    assert_eq!(ok(http, "/tokenize", &messages).await["tokens"], json!([3, 0, 1]));
    assert_eq!(ok(http, "/detokenize", &json!({"tokens": [3, 0, 1, 15]})).await, json!({"prompt": "dab"}));
    // Longer than any prompt may be, and in a body that is read elsewhere.
    let long = "abc".repeat(100_000);
    let answer = ok(http, "/tokenize", &json!({"prompt": long})).await;
    assert_eq!(answer["count"], 300_000);
    assert_eq!(ok(http, "/detokenize", &json!({"tokens": answer["tokens"]})).await, json!({"prompt": long}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_can_be_listed_and_asked_for_by_name() {
    let verifier = drafted_verifier().await;
    let http = verifier.serve_http().await;
    let models = http.get("/v1/models").await.json().await;
    let model = &models["data"][0];
    assert_eq!([&models["object"], &model["id"], &model["object"]], ["list", "scripted", "model"]);
    assert_eq!(model["drafts"][0]["state"], "ready");
    assert_eq!(http.get("/v1/models/scripted").await.json().await, *model);
    assert_eq!(http.get("/v1/models/other").await.status, 404);
    for name in [&model["id"], &model["version_id"]] {
        ok(http, CHAT, &with(chat("abc", 1), &json!({"model": name}))).await;
    }
    assert!(http.get("/version").await.json().await["version"].is_string());
    assert_eq!((http.get("/health").await.status, http.get("/ready").await.status), (200, 200));
    let metrics = http.get("/metrics").await.text().await;
    assert!(metrics.contains("specfleet_verifier_requests_total"), "{metrics}");
    assert!(metrics.contains("http_route=\"/v1/chat/completions\""), "{metrics}");
}

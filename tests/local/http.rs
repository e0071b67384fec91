//! The HTTP API of the real pair, as bytes on the wire.

use serde_json::{Value, json};
use specfleet_tests::{
    binaries::{Pair, text},
    http::{Stream, events, post, post_json},
};

const CHAT: &str = "/v1/chat/completions";
const QUESTION: &str = "What is the capital of France?";

fn question(more: &Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 64});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[test]
fn both_faces_and_both_forms_of_an_answer_have_the_same_text() {
    let pair = Pair::start();
    let over_grpc = text(&pair.generate(&["--temperature", "0", "--max-tokens", "64", QUESTION]));
    let http = pair.verifier.http;
    let whole = post_json(http, CHAT, &question(&json!({})));
    assert!(over_grpc.contains("Paris"), "{over_grpc}");
    assert_eq!(whole["choices"][0]["message"]["content"], over_grpc);
    assert!(whole["usage"]["speculation"]["accepted"].as_u64() > Some(0), "{whole}");
    let (_, stream) = post(http, CHAT, &question(&json!({"stream": true})));
    let streamed: String =
        events(&stream).iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(streamed, over_grpc);
}

#[test]
fn scores_of_tokens_do_not_depend_on_drafts() {
    let pair = Pair::start();
    if !pair.promises_equal_bits() {
        return;
    }
    let ids = post_json(pair.verifier.http, "/tokenize", &json!({"prompt": "The capital of France is Paris."}));
    let scored = |more: &Value| {
        let body = json!({"prompt": [ids["tokens"]], "echo": true, "logprobs": 1, "max_tokens": 24, "temperature": 0});
        let mut body = body;
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post_json(pair.verifier.http, "/v1/completions", &body)["choices"][0].clone()
    };
    let drafted = scored(&json!({}));
    assert_eq!(drafted["logprobs"]["tokens"].as_array().unwrap().len(), ids["tokens"].as_array().unwrap().len() + 24);
    for more in [json!({}), json!({"speculation": {"off": true}}), json!({"speculation": {"max_draft_length": 1}})] {
        assert_eq!(scored(&more), drafted);
    }
}

/// SIGTERM while a stream runs: nothing new, but the stream comes to its end, and the process leaves in peace.
#[test]
fn a_stream_outlives_the_order_to_leave() {
    let Pair { verifier, .. } = Pair::start();
    let body = question(&json!({"stream": true, "max_tokens": 300, "ignore_eos": true}));
    let mut stream = Stream::open(verifier.http, CHAT, &[], &body);
    stream.wait_for("data: ");
    assert_eq!(verifier.terminate(), Some(0));
    let chunks = events(&stream.rest());
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
}

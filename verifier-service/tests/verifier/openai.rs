//! The verifier's HTTP face over a socket: what clients of this API send, and what they rely on.

use serde_json::{Value, json};
use specfleet_speculation::TokenId;

use crate::support::{HttpClient, Reply, plain, winding};

mod answers;
mod edges;
mod ends;
mod logprobs;
mod reasoning;
mod refusals;
mod speculation;
mod structured;
mod tools;
mod writer;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// What the scripted vocabulary makes of ids that spell letters.
fn letters(tokens: &[TokenId]) -> String {
    tokens.iter().map(|&token| char::from(b'a' + token as u8)).collect()
}

/// The text that a winding target continues a text of letters with. It must not meet the long token.
fn continuation(prompt: &str, n_tokens: usize) -> String {
    let prompt: Vec<TokenId> = prompt.bytes().map(|letter| TokenId::from(letter - b'a')).collect();
    letters(&plain(spelled, &prompt, n_tokens))
}

/// [`winding`] over the ids that spell a letter.
fn spelled(prefix: &[TokenId]) -> TokenId {
    winding(prefix) % 14
}

/// `body` with some fields more.
fn with(mut body: Value, more: &Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// A chat of one message, greedy.
fn chat(message: &str, max_tokens: u32) -> Value {
    json!({"messages": [{"role": "user", "content": message}], "temperature": 0, "max_tokens": max_tokens})
}

/// A prompt to be continued, greedy.
fn completion(prompt: impl Into<Value>, max_tokens: u32) -> Value {
    json!({"prompt": prompt.into(), "temperature": 0, "max_tokens": max_tokens})
}

async fn ok(http: HttpClient, path: &str, body: &Value) -> Value {
    let reply = http.post(path, body).await;
    let status = reply.status;
    let answer = reply.json().await;
    assert_eq!(status, 200, "{body} gave {answer}");
    answer
}

/// The chunks of a stream that must be complete.
async fn chunks(mut reply: Reply) -> Vec<Value> {
    assert_eq!((reply.status, reply.headers["content-type"].as_str()), (200, "text/event-stream"));
    let mut events = reply.events().await;
    assert_eq!(events.pop().as_deref(), Some("[DONE]"));
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

/// The error of a refusal, with the form that all have.
async fn refusal(reply: Reply) -> (u16, Value) {
    let status = reply.status;
    let body = reply.json().await;
    let error = body["error"].clone();
    assert!(error["message"].is_string() && error["type"].is_string() && error["code"].is_string(), "{body}");
    assert!(error.as_object().unwrap().contains_key("param"), "{body}");
    (status, error)
}

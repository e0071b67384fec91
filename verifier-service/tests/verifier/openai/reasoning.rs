//! Thoughts before an answer are told apart from it, however a round cuts them.

use std::time::Duration;

use serde_json::{Value, json};
use specfleet_verifier_service::{Options, Reasoning};

use super::{
    CHAT, ok,
    writer::{THOUGHTS, answer, ask, erring},
};
use crate::support::options;

const TEXT: &str = "<think>\nTwo and two.\n\nSo <four>.\n</think>\n\nIt is 4.";

fn told() -> Value {
    let thoughts = "Two and two.\n\nSo <four>.";
    let message = json!({"role": "assistant", "content": "It is 4.", "refusal": null, "reasoning_content": thoughts});
    json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"})
}

/// Tokens up to `</think>`: the tags are one each, all else is bytes.
fn n_thought() -> usize {
    2 + TEXT.find("</think>").unwrap() - "<think>".len()
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_are_the_same_and_counted_the_same_for_every_draft_length() {
    for words in [THOUGHTS, THOUGHTS.special()] {
        let writing = words.writing(TEXT);
        let verifier = words.drafted(words.sure(writing.clone()), erring(writing, 6)).await;
        let http = verifier.serve_http().await;
        for draft_length in [0, 1, 4, 8] {
            let body = ask(&json!({"speculation": {"max_draft_length": draft_length}}));
            assert_eq!(answer(http, &body).await, told(), "{draft_length}");
            let usage = ok(http, CHAT, &body).await["usage"].clone();
            assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], n_thought(), "{usage}");
            assert_eq!(usage["completion_tokens"], n_thought() + "\n\nIt is 4.".len() + 1);
        }
        verifier.assert_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_that_never_end_are_all_there_is() {
    let verifier = THOUGHTS.verifier(THOUGHTS.writing(TEXT));
    let http = verifier.serve_http().await;
    let body = ask(&json!({"max_tokens": 10}));
    let choice = answer(http, &body).await;
    let message = json!({"role": "assistant", "content": "", "refusal": null, "reasoning_content": "Two and "});
    assert_eq!((&choice["message"], &choice["finish_reason"]), (&message, &json!("length")));
    assert_eq!(ok(http, CHAT, &body).await["usage"]["completion_tokens_details"]["reasoning_tokens"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn thoughts_that_a_deadline_cuts_are_counted_too() {
    let thinking = THOUGHTS.writing(&format!("<think>{}", "a".repeat(1000)));
    let verifier = THOUGHTS.verifier_of(THOUGHTS.sure(thinking).with_delay(Duration::from_millis(20)), options());
    let http = verifier.serve_http().await;
    let body = ask(&json!({"max_tokens": 1000})).to_string();
    let answer = http.send("POST", CHAT, &[("request-timeout-ms", "800")], &body).await.json().await;
    assert_eq!(answer["error"]["code"], "deadline_exceeded");
    let usage = &answer["partial"]["usage"];
    assert!(usage["completion_tokens"].as_u64().unwrap() > 1, "{answer}");
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_may_follow_thoughts() {
    let text = "<think>I <tool_call> it.</think>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
    let verifier = THOUGHTS.verifier(THOUGHTS.writing(text));
    let body = ask(&json!({"tools": [{"type": "function", "function": {"name": "now"}}]}));
    let choice = answer(verifier.serve_http().await, &body).await;
    assert_eq!(choice["message"]["reasoning_content"], "I <tool_call> it.");
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&Value::Null, &json!("tool_calls")));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_is_not_wanted_or_not_there_all_is_content() {
    let verifier = THOUGHTS
        .verifier_of(THOUGHTS.sure(THOUGHTS.writing(TEXT)), Options { reasoning: Reasoning::None, ..options() });
    let http = verifier.serve_http().await;
    assert_eq!(answer(http, &ask(&json!({}))).await["message"]["content"], TEXT);
    let plain = THOUGHTS.verifier(THOUGHTS.writing("  <thin air>"));
    let http = plain.serve_http().await;
    assert_eq!(answer(http, &ask(&json!({}))).await["message"]["content"], "  <thin air>");
    assert_eq!(ok(http, CHAT, &ask(&json!({}))).await["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

//! Requests at the edge of what makes sense: answered or refused, and the next one is served.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{pause, resume, sleep};

use super::{CHAT, COMPLETIONS, chat, completion, ok, spelled, with};
use crate::support::{Verifier, greedy_target, options};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_strange_prompt_harms_nobody() {
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let prompts = [
        json!(""),
        json!([]),
        json!([""]),
        json!([[]]),
        json!(["a", ""]),
        json!("   \n\t"),
        json!("a\u{0}b"),
        json!("\u{feff}\u{202e}"),
        json!(null),
        json!(7),
        json!([[0], "a"]),
        json!([-1]),
        json!([4_294_967_296_u64]),
        json!([0.5]),
        json!([99]),
        json!({"a": 1}),
    ];
    for prompt in prompts {
        let reply = http.post(COMPLETIONS, &json!({"prompt": prompt, "max_tokens": 2})).await;
        assert!([200, 400].contains(&reply.status), "{prompt} gave {}", reply.status);
    }
    for content in ["", "  ", "a\u{0}b", "\u{202e}"] {
        let reply = http.post(CHAT, &chat(content, 2)).await;
        assert!([200, 400].contains(&reply.status), "{content:?} gave {}", reply.status);
    }
    assert_eq!(http.post(CHAT, &json!({"messages": []})).await.status, 400);
    assert_eq!(http.post("/tokenize", &json!({"prompt": ""})).await.status, 400);
    assert_eq!(http.post("/detokenize", &json!({"tokens": [99]})).await.status, 400);
    ok(http, CHAT, &chat("abc", 2)).await;
    verifier.assert_idle().await;
}

/// Numbers that look random, the same ones every time.
fn random_numbers() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_u64), |state| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
        .map(|state| (state >> 33) as usize)
}

/// Any value may stand in any field: it is answered or refused, and never a failure of the server.
#[tokio::test(flavor = "multi_thread")]
async fn no_body_breaks_the_server() {
    let fields = [
        "model",
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "seed",
        "min_tokens",
        "ignore_eos",
        "stop_token_ids",
        "stop",
        "speculation",
        "logprobs",
        "top_logprobs",
        "echo",
        "prompt",
        "messages",
        "tools",
        "response_format",
        "best_of",
        "suffix",
        "user",
    ];
    let deep = (0..100).fold(json!(0), |inner, _| json!([inner]));
    let values = [
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(3),
        json!(-1),
        json!(1e300),
        json!(0.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("abc"),
        json!("\u{0}"),
        json!("n".repeat(10_000)),
        json!([]),
        json!([0]),
        json!(["a"]),
        json!([null]),
        json!([[0, 1], [2]]),
        json!({}),
        json!({"1": 1}),
        json!({"off": true}),
        json!({"include_usage": true}),
        json!([{"role": "user", "content": "a"}]),
        deep,
    ];
    let verifier = Verifier::start(greedy_target(spelled), Vec::new(), options());
    let http = verifier.serve_http().await;
    let mut numbers = random_numbers();
    let mut below = |n: usize| numbers.next().unwrap() % n;
    let mut n_answered = 0;
    for _ in 0..600 {
        let (path, mut body) = vec![(CHAT, chat("abc", 3)), (COMPLETIONS, completion("abc", 3))].swap_remove(below(2));
        for _ in 0..=below(3) {
            body[fields[below(fields.len())]] = values[below(values.len())].clone();
        }
        let mut reply = http.post(path, &body).await;
        let (status, answer) = (reply.status, reply.text().await);
        assert!([200, 400, 404, 409].contains(&status), "{body} gave {status}: {answer}");
        if status == 200 {
            n_answered += 1;
            let is_whole = answer.ends_with("data: [DONE]\n\n") || serde_json::from_str::<Value>(&answer).is_ok();
            assert!(is_whole, "{body} gave {answer}");
        }
    }
    assert!(n_answered > 50, "{n_answered} of 600");
    verifier.assert_idle().await;
}

/// One thread, so that the clock can be stopped.
#[tokio::test]
async fn a_stream_without_tokens_is_kept_alive_by_comments() {
    let target = greedy_target(spelled).with_delay(Duration::from_millis(300));
    let verifier = Verifier::start(target, Vec::new(), options());
    let http = verifier.serve_http().await;
    let mut reply = http.post(COMPLETIONS, &with(completion("abc", 1), &json!({"stream": true}))).await;
    pause();
    sleep(Duration::from_secs(25)).await;
    resume();
    let text = reply.text().await;
    let (silence, tokens) = text.split_once("data: ").unwrap();
    assert_eq!(silence.lines().filter(|line| line.starts_with(':')).count(), 2, "{text}");
    assert!(tokens.contains("[DONE]"), "{text}");
}

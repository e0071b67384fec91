//! Log-probabilities in the forms of this API, as evaluations read them.

use serde_json::{Value, json};
use specfleet_model::scripted::ScriptedModel;

use super::{CHAT, COMPLETIONS, chat, chunks, completion, ok, refusal, spelled, with};
use crate::support::{END, FakeDraft, N_VOCAB, Verifier, greedy_target, options};

/// After a prefix of n tokens, b (1) has half of the probability of a (0), and so on; z is impossible.
fn halving() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |_| {
        (0..N_VOCAB).map(|id| if id < 4 { (0.5_f32).powi(id as i32).ln() } else { f32::NEG_INFINITY }).collect()
    })
}

/// ln of 8/15, 4/15, 2/15 and 1/15.
fn expected(letter: &str) -> f64 {
    let id = i32::from(letter.as_bytes()[0] - b'a');
    (8.0 / 15.0 * 0.5_f64.powi(id)).ln()
}

fn close(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap() - expected).abs() < 1e-5
}

/// What evaluation harnesses ask to score a continuation: lists of ids, echoed.
#[tokio::test(flavor = "multi_thread")]
async fn an_echoed_prompt_is_scored_token_by_token() {
    let verifier = Verifier::with_draft(halving(), &FakeDraft::following(|_| 0), options()).await;
    let http = verifier.serve_http().await;
    let more = json!({"model": "scripted", "echo": true, "logprobs": 1, "seed": 1234});
    let answer = ok(http, COMPLETIONS, &with(completion(json!([[0, 1, 0, 2], [3, 4]]), 1), &more)).await;
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices[0]["text"], "abaca");
    let lists = &choices[0]["logprobs"];
    assert_eq!(lists["tokens"], json!(["a", "b", "a", "c", "a"]));
    assert_eq!(lists["text_offset"], json!([0, 1, 2, 3, 4]));
    assert_eq!((&lists["token_logprobs"][0], &lists["top_logprobs"][0]), (&Value::Null, &Value::Null));
    for (index, token) in ["b", "a", "c", "a"].into_iter().enumerate().map(|(index, token)| (index + 1, token)) {
        let (own, top) = (&lists["token_logprobs"][index], lists["top_logprobs"][index].as_object().unwrap());
        assert!(close(own, expected(token)), "{own}");
        assert!(close(&top["a"], expected("a")));
        assert_eq!(top[token], *own, "the token itself is there, with the very same number");
        let is_greedy = top.values().all(|other| other.as_f64() <= own.as_f64());
        assert_eq!(is_greedy, token == "a");
    }
    assert_eq!(choices[1]["logprobs"]["token_logprobs"][1], -9999.0, "JSON has no infinity");
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_gives_the_same_scores_as_the_whole() {
    let verifier = Verifier::with_draft(halving(), &FakeDraft::following(|_| 0), options()).await;
    let http = verifier.serve_http().await;
    for echo in [false, true] {
        let body =
            with(completion("abc", 20), &json!({"temperature": 1, "seed": 3, "logprobs": 2, "echo": echo, "n": 2}));
        let whole = ok(http, COMPLETIONS, &body).await;
        let chunks = chunks(http.post(COMPLETIONS, &with(body, &json!({"stream": true}))).await).await;
        for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
            let own: Vec<&Value> =
                chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index).collect();
            let text: String = own.iter().map(|choice| choice["text"].as_str().unwrap()).collect();
            assert_eq!(choice["text"], text);
            for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
                let joined: Vec<&Value> =
                    own.iter().filter_map(|choice| choice["logprobs"][list].as_array()).flatten().collect();
                assert_eq!(choice["logprobs"][list], json!(joined), "{list}");
            }
            assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), if echo { 23 } else { 20 });
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_has_an_entry_for_each_token() {
    let verifier = Verifier::with_draft(halving(), &FakeDraft::following(|_| 0), options()).await;
    let http = verifier.serve_http().await;
    let body = with(chat("abc", 12), &json!({"temperature": 1, "seed": 3, "logprobs": true, "top_logprobs": 2}));
    let answer = ok(http, CHAT, &body).await;
    let entries = answer["choices"][0]["logprobs"]["content"].as_array().unwrap();
    let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!((entries.len(), answer["usage"]["completion_tokens"].as_u64()), (12, Some(12)));
    for (entry, letter) in entries.iter().zip(text.chars()) {
        let letter = letter.to_string();
        assert_eq!((&entry["token"], &entry["bytes"]), (&json!(letter), &json!(letter.as_bytes())));
        assert!(close(&entry["logprob"], expected(&letter)));
        let top = entry["top_logprobs"].as_array().unwrap();
        assert_eq!([&top[0]["token"], &top[1]["token"]], ["a", "b"]);
        assert!(close(&top[1]["logprob"], expected("b")));
    }
    let chunks = chunks(http.post(CHAT, &with(body, &json!({"stream": true}))).await).await;
    let streamed: Vec<&Value> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array()).flatten().collect();
    assert_eq!(json!(streamed), json!(entries));
}

/// With an end token, and with a stop string: entries, ids and usage are cut at the same token.
#[tokio::test(flavor = "multi_thread")]
async fn entries_end_with_the_last_token() {
    let target = |prefix: &[u32]| if prefix.len() < 8 { spelled(prefix) } else { END };
    let verifier = Verifier::with_draft(greedy_target(target), &FakeDraft::following(target), options()).await;
    let http = verifier.serve_http().await;
    let scored = with(completion("abc", 30), &json!({"logprobs": 0}));
    let whole = ok(http, COMPLETIONS, &scored).await;
    let count = |answer: &Value| {
        let n_entries = answer["choices"][0]["logprobs"]["tokens"].as_array().unwrap().len() as u64;
        assert_eq!(Some(n_entries), answer["usage"]["completion_tokens"].as_u64());
        n_entries
    };
    assert_eq!((count(&whole), &whole["choices"][0]["logprobs"]["tokens"][5]), (6, &json!("<end>")));
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let stopped = ok(http, COMPLETIONS, &with(scored, &json!({"stop": text[2..4]}))).await;
    assert_eq!((stopped["choices"][0]["text"].as_str(), count(&stopped)), (Some(&text[..2]), 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_wrongly_is_refused() {
    let verifier = Verifier::start(halving(), Vec::new(), options());
    let http = verifier.serve_http().await;
    for more in [json!({"top_logprobs": 2}), json!({"logprobs": true, "top_logprobs": 21}), json!({"logprobs": 3})] {
        assert_eq!(refusal(http.post(CHAT, &with(chat("a", 1), &more)).await).await.0, 400, "{more}");
    }
    for more in [json!({"logprobs": 21}), json!({"logprobs": true})] {
        assert_eq!(refusal(http.post(COMPLETIONS, &with(completion("a", 1), &more)).await).await.0, 400, "{more}");
    }
}

//! Log-probabilities in the forms of this API, as evaluations read them.

use serde_json::{Value, json};
use specfleet_model::{checkpoint::GenerationDefaults, scripted::ScriptedModel, tokenizer::Tokenizer};

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

/// Text that could become a stop string is shown late, and half of a character never; a token begins where it begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_s_offset_is_where_its_text_begins_however_late_it_is_shown() {
    // "ab" + half of an é + its other half + "c", again and again.
    let spellings = [&b"a"[..], b"b", b"\xc3", b"\xa9", b"c", b"<end>"].map(<[u8]>::to_vec).to_vec();
    let tokenizer = Tokenizer::from_bytes(spellings, &[5], &[5]);
    let target = ScriptedModel::from_fn(6, |prefix| {
        let mut row = vec![-30.0; 6];
        row[prefix.len() % 5] = 30.0;
        row
    });
    let verifier = Verifier::spelling(target, tokenizer, Vec::new(), options());
    let http = verifier.serve_http().await;
    let body = json!({"prompt": [[0]], "max_tokens": 9, "temperature": 0, "logprobs": 0, "stop": "bécab!"});
    let whole = ok(http, COMPLETIONS, &body).await;
    assert_eq!(whole["choices"][0]["text"], "bécabéc");
    let offsets = json!([0, 1, 1, 2, 3, 4, 5, 5, 6]);
    assert_eq!(whole["choices"][0]["logprobs"]["text_offset"], offsets);
    let chunks = chunks(http.post(COMPLETIONS, &with(body, &json!({"stream": true}))).await).await;
    let streamed: Vec<&Value> =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["logprobs"]["text_offset"].as_array()).flatten().collect();
    assert_eq!(json!(streamed), offsets);
}

/// A special token completes no text, unless the client wrote its name. Wherever a token begins, its text stands there.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_places_in_the_text_that_is_returned_also_where_special_tokens_stand() {
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false})
    };
    let model = json!({"type": "BPE", "vocab": {"a": 0, "\u{e9}": 1, "<s>": 2, "<end>": 3}, "merges": []});
    let file = json!({"version": "1.0", "added_tokens": [special(2, "<s>"), special(3, "<end>")], "model": model});
    let defaults = GenerationDefaults { end_tokens: vec![3], ..GenerationDefaults::default() };
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes(), &defaults).unwrap();
    // Goes on with its own special token, which has no text.
    let target = ScriptedModel::from_fn(4, |prefix| {
        let mut row = vec![-30.0; 4];
        row[[2, 1, 0][prefix.len() % 3]] = 30.0;
        row
    });
    let verifier = Verifier::spelling(target, tokenizer, Vec::new(), options());
    let http = verifier.serve_http().await;
    let cases = [
        (json!("<s>a<s>\u{e9}<s>a"), "<s>a<s>\u{e9}<s>a", json!([0, 3, 4, 7, 8, 11])),
        (json!([[2, 0, 2, 1, 2, 0]]), "a\u{e9}a", json!([0, 0, 1, 1, 2, 2])),
        (json!("a\u{e9}a\u{e9}aa"), "a\u{e9}a\u{e9}aa", json!([0, 1, 2, 3, 4, 5])),
    ];
    for (prompt, echo, offsets) in cases {
        let body = json!({"prompt": prompt, "echo": true, "max_tokens": 4, "temperature": 0, "logprobs": 0, "n": 2});
        let whole = ok(http, COMPLETIONS, &body).await;
        let n_echo = echo.chars().count();
        let behind = [0, 0, 1, 2].map(|offset| n_echo + offset);
        let offsets = json!([offsets.as_array().unwrap().clone(), behind.map(Value::from).to_vec()].concat());
        for choice in whole["choices"].as_array().unwrap() {
            assert_eq!(choice["text"], format!("{echo}\u{e9}a"));
            assert_eq!(choice["logprobs"]["text_offset"], offsets, "{echo}");
        }
        let chunks = chunks(http.post(COMPLETIONS, &with(body, &json!({"stream": true}))).await).await;
        for index in 0..2 {
            let own = chunks.iter().map(|chunk| &chunk["choices"][0]).filter(|choice| choice["index"] == index);
            let streamed: Vec<&Value> =
                own.filter_map(|choice| choice["logprobs"]["text_offset"].as_array()).flatten().collect();
            assert_eq!(json!(streamed), offsets, "{echo}");
        }
    }
}

/// Two tokens that are spelled alike are two entries in a chat's list. The other form is an object by spelling: there the
/// token that was drawn counts, or the likelier one.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_are_spelled_alike_are_not_mixed_up() {
    let spellings = [&b"a"[..], b"a", b"b", b"<end>"].map(<[u8]>::to_vec).to_vec();
    let target = || ScriptedModel::from_fn(4, |_| [0.5_f32, 0.25, 0.25, 0.0].map(f32::ln).to_vec());
    let verifier = |banned: u32| {
        let tokenizer = Tokenizer::from_bytes(spellings.clone(), &[3], &[3]);
        (
            Verifier::spelling(target(), tokenizer, Vec::new(), options()),
            json!({"logit_bias": {banned.to_string(): -100}}),
        )
    };
    let is = |value: &Value, probability: f64| close(value, probability.ln());
    // The bias chooses among the first two, and scores are from before it.
    for (banned, drawn) in [(1, 0.5), (0, 0.25)] {
        let (verifier, bias) = verifier(banned);
        let http = verifier.serve_http().await;
        let body = json!({"prompt": [[2]], "max_tokens": 1, "temperature": 0, "logprobs": 3});
        let lists = ok(http, COMPLETIONS, &with(body, &bias)).await["choices"][0]["logprobs"].clone();
        assert!(is(&lists["token_logprobs"][0], drawn), "{lists}");
        assert!(is(&lists["top_logprobs"][0]["a"], drawn), "the token's own number: {lists}");
        let body = with(chat("b", 1), &json!({"logprobs": true, "top_logprobs": 3}));
        let entry = ok(http, CHAT, &with(body, &bias)).await["choices"][0]["logprobs"]["content"][0].clone();
        assert!(is(&entry["logprob"], drawn));
        let top: Vec<_> = entry["top_logprobs"].as_array().unwrap().iter().map(|other| &other["token"]).collect();
        assert_eq!(top, ["a", "a", "b"], "{entry}");
    }
    // Neither was drawn: the likelier one counts.
    let (verifier, _) = verifier(0);
    let body = json!({"prompt": [[2]], "max_tokens": 1, "temperature": 0, "logprobs": 3, "logit_bias": {"2": 100}});
    let lists = ok(verifier.serve_http().await, COMPLETIONS, &body).await["choices"][0]["logprobs"].clone();
    assert!(is(&lists["top_logprobs"][0]["a"], 0.5), "{lists}");
}

/// Every continuation has the prompt's scores before its own, and they are the same.
#[tokio::test(flavor = "multi_thread")]
async fn the_scores_of_an_echoed_prompt_stand_before_each_continuation() {
    let verifier = Verifier::start(halving(), Vec::new(), options());
    let http = verifier.serve_http().await;
    let body = with(completion("abcd", 2), &json!({"echo": true, "logprobs": 2, "n": 5, "temperature": 1, "seed": 1}));
    let whole = ok(http, COMPLETIONS, &body).await;
    let first = |list: &Value| list.as_array().unwrap()[..4].to_vec();
    for choice in whole["choices"].as_array().unwrap() {
        assert_eq!(choice["logprobs"]["tokens"].as_array().unwrap().len(), 6);
        for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            assert_eq!(first(&choice["logprobs"][list]), first(&whole["choices"][0]["logprobs"][list]));
        }
    }
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

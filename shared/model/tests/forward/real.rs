//! A real model, if `SPECFLEET_TEST_TARGET` names one (SmolLM2-135M-Instruct as GGUF, or its folder).

use std::path::PathBuf;

use specfleet_model::batch::WantedLogits;
use specfleet_model::chat_template::ChatMessage;
use specfleet_model::kv_cache::KvSequence;
use specfleet_model::load::{Dtype, Error, LoadOptions, Loaded, Operators, load};
use specfleet_model::tokenizer::Detokenizer;
use specfleet_speculation::TokenId;

use crate::support::{BOTH_OPERATORS, options};
use crate::ways::forward;

const QUESTION: &str = "What is the capital of France?";

#[test]
fn greedy_continuation_of_a_chat_prompt_is_sensible() {
    for operators in BOTH_OPERATORS {
        let Some(mut loaded) = target(operators) else { continue };
        let prompt = prompt(&loaded);
        let (tokens, kv) = greedy(&mut loaded, &prompt, 24);
        let mut detokenizer = Detokenizer::new();
        let text: String = tokens.iter().map(|&token| detokenizer.push(&loaded.tokenizer, token)).collect();
        println!("{operators}: {text:?}");
        assert!(text.contains("Paris"), "{operators}: {text:?}");
        loaded.model.kv().release(kv);
    }
}

#[test]
fn verification_of_five_tokens_has_the_bits_of_single_steps() {
    let Some(mut loaded) = target(Operators::Fused) else { return };
    let prompt = prompt(&loaded);
    let (tokens, mut single) = greedy(&mut loaded, &prompt, 1);
    let continuation = [tokens[0], 281, 260, 29, 28];
    let model = &mut *loaded.model;
    let rows: Vec<_> =
        continuation.iter().map(|&token| forward(model, &mut single, &[token], WantedLogits::All)).collect();

    let mut verified = model.kv().start(&[]);
    forward(model, &mut verified, &prompt, WantedLogits::None);
    let logits = forward(model, &mut verified, &continuation, WantedLogits::All);
    for (index, row) in rows.iter().enumerate() {
        let same = row.row(0).iter().zip(logits.row(index)).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "row {index}");
    }
    model.kv().release(single);
    model.kv().release(verified);
}

fn target(operators: Operators) -> Option<Loaded> {
    let Some(path) = std::env::var_os("SPECFLEET_TEST_TARGET").map(PathBuf::from) else {
        println!("skipped: SPECFLEET_TEST_TARGET names no model");
        return None;
    };
    match load(&path, &LoadOptions { kv_tokens: 1024, ..options(operators, Dtype::Bf16) }) {
        Ok(loaded) => Some(loaded),
        Err(Error::FusedUnavailable { reason }) => {
            println!("skipped: the fused operators cannot run here: {reason}");
            None
        }
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn prompt(loaded: &Loaded) -> Vec<TokenId> {
    let message = ChatMessage::new("user", QUESTION);
    let text = loaded.chat_template.as_ref().unwrap().render(&[message], true).unwrap();
    loaded.tokenizer.encode(&text, false).unwrap()
}

/// The likeliest tokens after `prompt`, until the end or `n_tokens`, and the sequence before the last of them.
fn greedy(loaded: &mut Loaded, prompt: &[TokenId], n_tokens: usize) -> (Vec<TokenId>, KvSequence) {
    let mut kv = loaded.model.kv().start(&[]);
    let mut input = prompt.to_vec();
    let mut tokens = Vec::new();
    while tokens.len() < n_tokens {
        let logits = forward(&mut *loaded.model, &mut kv, &input, WantedLogits::Last);
        let row = logits.row(0);
        let token = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as TokenId;
        if loaded.tokenizer.end_tokens().contains(&token) {
            break;
        }
        tokens.push(token);
        input = vec![token];
    }
    (tokens, kv)
}

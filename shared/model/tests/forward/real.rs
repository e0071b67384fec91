//! A real model, if `SPECFLEET_TEST_TARGET` names one (SmolLM2-135M-Instruct as GGUF, or its folder).

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::Command;

use specfleet_model::batch::WantedLogits;
use specfleet_model::chat_template::ChatMessage;
use specfleet_model::kv_cache::KvSequence;
use specfleet_model::load::{Dtype, Error, LoadOptions, Loaded, Operators, load};
use specfleet_model::tokenizer::Detokenizer;
use specfleet_speculation::TokenId;

use crate::bits::{assert_same_bits_in_every_way, dtypes};
use crate::support::{BOTH_OPERATORS, options};
use crate::ways::forward;

/// Of the threads of OpenMP, on which libtorch computes.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";
const QUESTION: &str = "What is the capital of France?";

#[test]
fn greedy_continuation_of_a_chat_prompt_is_sensible() {
    for operators in BOTH_OPERATORS {
        let Some(mut loaded) = target(&options(operators, Dtype::Bf16)) else { continue };
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
    let Some(mut loaded) = target(&options(Operators::Fused, Dtype::Bf16)) else { return };
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

/// What a thread computes depends on how many rows it gets, and only products as wide as a real model's are shared out.
#[test]
fn a_row_has_the_same_bits_in_every_way_with_two_threads_of_libtorch() {
    if std::env::var_os("SPECFLEET_TEST_LONG").is_none() {
        println!("skipped: SPECFLEET_TEST_LONG is not set");
        return;
    }
    if std::env::var_os(WAIT_POLICY).is_none() {
        // Read when libtorch is loaded. Threads that spin while they wait for each other take minutes beside other tests.
        let name = "real::a_row_has_the_same_bits_in_every_way_with_two_threads_of_libtorch";
        let mut again = Command::new(std::env::current_exe().unwrap());
        let status = again.args(["--exact", name, "--nocapture"]).env(WAIT_POLICY, "passive").status();
        assert!(status.unwrap().success(), "see above");
        return;
    }
    for dtype in dtypes(Operators::Libtorch) {
        let options = LoadOptions { threads: NonZeroUsize::new(2), ..options(Operators::Libtorch, dtype) };
        let Some(mut loaded) = target(&options) else { return };
        let prompt = prompt(&loaded);
        // Blocks of the cache are reused whole, and there must be something behind the last one.
        assert_same_bits_in_every_way(&mut *loaded.model, &[&prompt, &prompt[..20]], &format!("the target, {dtype}"));
    }
}

fn target(options: &LoadOptions) -> Option<Loaded> {
    let Some(path) = std::env::var_os("SPECFLEET_TEST_TARGET").map(PathBuf::from) else {
        println!("skipped: SPECFLEET_TEST_TARGET names no model");
        return None;
    };
    match load(&path, &LoadOptions { kv_tokens: 1024, ..options.clone() }) {
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

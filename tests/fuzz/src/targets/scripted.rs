//! A model that is a table, for the services under attack.

use specfleet_grammar::Grammars;
use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_protocol::v1;

/// Text of ids 0 to 14: letters for prompts, and what JSON is written with. The last id ends a text.
const SPELLING: [&str; 15] = ["a", "b", "c", "d", "e", "{", "}", "\"", ":", ",", "[", "]", "1", "2", "true"];
const END: u32 = 15;
pub(super) const N_VOCAB: usize = 16;
/// Short, so that a request that runs to its end is quick.
pub(super) const CONTEXT_LENGTH: usize = 64;

pub(super) fn model() -> ScriptedModel {
    let table = "* -> 0:4 1:3 2:2 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1
        1 -> 0:1 2:5 7:1 15:1
        2 3 -> 3:1 4:1";
    let model = ScriptedModel::from_table(table, N_VOCAB).expect("a good table");
    model.with_context_length(CONTEXT_LENGTH).with_kv_tokens(16 * CONTEXT_LENGTH)
}

pub(super) fn tokenizer() -> Tokenizer {
    let tokens = SPELLING.iter().chain(&["<end>"]).map(|token| token.as_bytes().to_vec());
    Tokenizer::from_bytes(tokens.collect(), &[END], &[END])
}

/// As the services make them.
pub(super) fn grammars() -> Grammars {
    tokenizer().grammars(&[END]).expect("a small vocabulary")
}

/// The two tokens of a text.
pub(super) fn spell(text: &str) -> [u32; 2] {
    let ids = tokenizer().encode(text, false).expect("a text of its tokens");
    ids.try_into().expect("two tokens")
}

/// Every parameter that shapes a row, as both services take them. A form says itself when it may end.
pub(super) fn sampling(has_form: bool) -> v1::SamplingParams {
    v1::SamplingParams {
        temperature: Some(0.9),
        top_p: Some(0.95),
        top_k: Some(12),
        min_p: Some(0.01),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(-0.5),
        logit_bias: vec![v1::LogitBias { token_id: 3, bias: 1.5 }],
        min_tokens: if has_form { 0 } else { 2 },
        end_token_ids: vec![END],
    }
}

//! A model that is a table, for the services under attack.

use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};

/// Ids of the vocabulary: 0 to 14 spell letters, 15 ends a text.
pub(super) const N_VOCAB: usize = 16;
/// Short, so that a request that runs to its end is quick.
pub(super) const CONTEXT_LENGTH: usize = 64;
const END: u32 = 15;

pub(super) fn model() -> ScriptedModel {
    let table = "* -> 0:4 1:3 2:2 3:1 15:1\n1 -> 0:1 2:5\n2 3 -> 3:1 4:1";
    let model = ScriptedModel::from_table(table, N_VOCAB).expect("a good table");
    model.with_context_length(CONTEXT_LENGTH).with_kv_tokens(16 * CONTEXT_LENGTH)
}

pub(super) fn tokenizer() -> Tokenizer {
    let letters = (b'a'..).take(N_VOCAB - 1).map(|letter| vec![letter]);
    Tokenizer::from_bytes(letters.chain([b"<end>".to_vec()]).collect(), &[END], &[END])
}

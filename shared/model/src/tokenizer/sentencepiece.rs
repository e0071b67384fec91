//! SentencePiece vocabularies: scores instead of merges, "▁" instead of spaces, byte tokens for the rest.

use serde_json::{Value, json};
use tokenizers::models::bpe::Vocab;

use super::TokenType;

/// The merges that the scores imply. SentencePiece joins the neighbours whose union has the highest score; a list of
/// merges in descending order of that score makes BPE do the same.
pub(super) fn merges(tokens: &[&str], scores: &[f32], types: &[TokenType], vocab: &Vocab) -> Vec<(String, String)> {
    let mut ranked = Vec::new();
    for ((token, score), _) in tokens.iter().zip(scores).zip(types).filter(|(_, kind)| **kind == TokenType::Normal) {
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            if let (Some(left_id), Some(right_id)) = (vocab.get(left), vocab.get(right)) {
                ranked.push((*score, *left_id, *right_id, left, right));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    ranked.into_iter().map(|(_, _, _, left, right)| (left.to_owned(), right.to_owned())).collect()
}

/// Spaces become "▁", and one is put before the text if `has_prefix`.
pub(super) fn normalizer(has_prefix: bool) -> Value {
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let prepend = has_prefix.then(|| json!({"type": "Prepend", "prepend": "▁"}));
    json!({"type": "Sequence", "normalizers": prepend.into_iter().chain([replace]).collect::<Vec<_>>()})
}

/// The way back.
pub(super) fn decoder(has_prefix: bool) -> Value {
    let steps = [
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    let strip = has_prefix.then(|| json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    json!({"type": "Sequence", "decoders": steps.into_iter().chain(strip).collect::<Vec<_>>()})
}

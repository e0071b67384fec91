//! SentencePiece vocabularies: scores instead of merges, "▁" instead of spaces, byte tokens for the rest.

use serde_json::{Value, json};
use tokenizers::models::bpe::Vocab;

use super::{Error, TokenType};

/// Every cut of a token is looked at, so work grows with the square of its length. Published ones have up to 100 bytes.
const MAX_TOKEN_BYTES: usize = 1024;
/// On average, over a vocabulary. Published ones have 2 to 3.
const MAX_MERGES_PER_TOKEN: usize = 16;

/// The merges that the scores imply. SentencePiece joins the neighbours whose union has the highest score; a list of
/// merges in descending order of that score makes BPE do the same.
///
/// A vocabulary of "a", "aa", "aaa", ... implies more merges than anybody has memory for; such a one is refused.
pub(super) fn merges(
    tokens: &[&str],
    scores: &[f32],
    types: &[TokenType],
    vocab: &Vocab,
) -> Result<Vec<(String, String)>, Error> {
    let mut ranked = Vec::new();
    for ((token, score), _) in tokens.iter().zip(scores).zip(types).filter(|(_, kind)| **kind == TokenType::Normal) {
        if token.len() > MAX_TOKEN_BYTES {
            let problem = format!("a token has {} bytes, expected at most {MAX_TOKEN_BYTES}", token.len());
            return Err(Error::Damaged(problem));
        }
        for (cut, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(cut);
            if let (Some(left_id), Some(right_id)) = (vocab.get(left), vocab.get(right)) {
                ranked.push((*score, *left_id, *right_id, left, right));
            }
        }
        if ranked.len() > MAX_MERGES_PER_TOKEN * tokens.len() {
            let problem = format!("its {} tokens imply more than {MAX_MERGES_PER_TOKEN} merges each", tokens.len());
            return Err(Error::Damaged(problem));
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    Ok(ranked.into_iter().map(|(_, _, _, left, right)| (left.to_owned(), right.to_owned())).collect())
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

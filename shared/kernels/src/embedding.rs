//! Token embeddings out of a packed head.
//!
//! Models that tie their embedding to their head would otherwise keep that matrix twice, and it is
//! the largest they have. A row of the packed form lies scattered over as many cache lines as the
//! row has runs, which costs less than a microsecond a token.

use crate::{PackedLinear, Weight};

/// Copies row `tokens[i]` of `table` `[vocab, width]` to row `i` of `out` `[tokens, width]`.
///
/// # Panics
/// When `out` has another size or a token is not below the number of rows.
pub fn embed<W: Weight>(table: &PackedLinear<W>, tokens: &[u32], out: &mut [f32]) {
    let width = table.n_in();
    assert_eq!(out.len(), tokens.len() * width, "embedding: output length");
    for (token, out) in tokens.iter().zip(out.chunks_exact_mut(width)) {
        let row = *token as usize;
        assert!(row < table.n_out(), "embedding: token {token} of {}", table.n_out());
        table.copy_row(row, out);
    }
}

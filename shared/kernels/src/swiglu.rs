//! The gated activation of the feed-forward layer (Shazeer 2020, arXiv:2002.05202).

use crate::{Element, WorkerPool, avx512};

/// Rows that a worker takes at a time; fewer are done by the caller alone.
const ROWS_PER_CHUNK: usize = 8;

/// `out = gate * sigmoid(gate) * up`: `gate_up` is `[rows, 2 * n_ffn]`, in each row first the
/// gates, then the ups; `out` is `[rows, n_ffn]`.
///
/// # Panics
/// When `n_ffn` is 0, `gate_up` is not whole rows, or `out` has another number of rows.
pub fn swiglu<E: Element>(pool: &WorkerPool, gate_up: &[f32], n_ffn: usize, out: &mut [E]) {
    assert!(n_ffn > 0, "swiglu: no columns");
    assert!(gate_up.len().is_multiple_of(2 * n_ffn), "swiglu: {} inputs, rows of {}", gate_up.len(), 2 * n_ffn);
    assert_eq!(2 * out.len(), gate_up.len(), "swiglu: output length");
    pool.over_rows(out, n_ffn, ROWS_PER_CHUNK, |first, out| {
        let rows = gate_up[first * 2 * n_ffn..].chunks_exact(2 * n_ffn);
        for (row, out) in rows.zip(out.chunks_exact_mut(n_ffn)) {
            let (gate, up) = row.split_at(n_ffn);
            avx512::swiglu(pool.isa(), gate, up, out);
        }
    });
}

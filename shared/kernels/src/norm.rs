//! Root-mean-square normalisation (Zhang and Sennrich 2019, arXiv:1910.07467).

use crate::{Element, WorkerPool, avx512};

/// Rows that a worker takes at a time; fewer are done by the caller alone.
const ROWS_PER_CHUNK: usize = 32;

/// `out = x / sqrt(mean(x²) + eps) * weight` for each row of `x` `[rows, width]`.
///
/// # Panics
/// When `weight` is empty, `x` is not whole rows of its width, or `out` has another size than `x`.
pub fn rms_norm<E: Element>(pool: &WorkerPool, x: &[f32], weight: &[f32], eps: f32, out: &mut [E]) {
    let width = weight.len();
    assert!(width > 0, "rms_norm: empty weight");
    assert!(x.len().is_multiple_of(width), "rms_norm: {} inputs, rows of {width}", x.len());
    assert_eq!(out.len(), x.len(), "rms_norm: output length");
    pool.over_rows(out, width, ROWS_PER_CHUNK, |first, out| {
        let rows = x[first * width..].chunks_exact(width);
        for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
            avx512::rms_norm(pool.isa(), row, weight, eps, out);
        }
    });
}

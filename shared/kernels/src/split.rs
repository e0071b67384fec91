//! Cutting work into pieces.

use std::ops::Range;

/// Cuts `0..n` into the fewest ranges of at most `max`, of nearly equal length.
pub(crate) fn balanced(n: usize, max: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let n_parts = n.div_ceil(max);
    (0..n_parts).map(move |part| n * part / n_parts..n * (part + 1) / n_parts)
}

/// Cuts `0..n` into ranges that shrink towards the end, for `n_workers` who take one after another:
/// long ones first, because reading on is faster than starting anew, and short ones last, so that
/// all end together.
pub(crate) fn guided(n: usize, n_workers: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < n {
        let len = ((n - start) / (2 * n_workers)).max(1);
        pieces.push(start..start + len);
        start += len;
    }
    pieces
}

//! The product of a few input rows with packed weights.
//!
//! For few rows the weights' way from memory is all that counts; for many (a prompt) it is the
//! arithmetic. One loop serves both: workers take groups of outputs, and within a group all rows
//! pass over its weights while those are in the cache. A sum runs over the inputs in order, in
//! one register, for any number of rows.
#![allow(unsafe_code)]

use crate::{
    PackedLinear, Weight, WorkerPool,
    avx512::{self, Product},
    disjoint::Disjoint,
    split::guided,
};

/// What happens to the earlier content of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `y = W x + b`
    Replace,
    /// `y += W x + b`, as a residual stream wants it.
    Accumulate,
}

/// `y = W x + b` for each row: `x` is `[rows, n_in]`, `y` is `[rows, n_out]`.
///
/// # Panics
/// When `x` is not whole rows or `y` has another number of rows.
pub fn linear<W: Weight>(pool: &WorkerPool, weights: &PackedLinear<W>, x: &[W::Input], y: &mut [f32], output: Output) {
    let (n_in, n_out) = (weights.n_in(), weights.n_out());
    let n_rows = x.len() / n_in;
    assert_eq!(x.len(), n_rows * n_in, "linear: input is not whole rows");
    assert_eq!(y.len(), n_rows * n_out, "linear: output length");
    if n_rows == 0 {
        return;
    }
    let x = W::operands(pool, x, n_in);
    let product = Product { weights, x: &x, y: &Disjoint::new(y), n_rows, output };
    let pieces = guided(weights.n_panels(), pool.n_threads());
    pool.run(pieces.len(), |piece| {
        // SAFETY: pieces have different panels, hence different columns of `y`; the lengths of
        // input and `y` are asserted above.
        unsafe { avx512::multiply(pool.isa(), &product, pieces[piece].clone()) };
    });
}

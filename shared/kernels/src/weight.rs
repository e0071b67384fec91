//! How weights are kept, which need not be the type of what they are multiplied with.

use std::borrow::Cow;

use crate::{Element, WorkerPool, avx512::Multiply};

/// A form of weights: an [`Element`] type as it is, or [`Int8`](crate::Int8).
///
/// Packed weights keep those that one instruction consumes for one output beside each other. That
/// number is [`Weight::RUN`]: one for f32, two for bf16, four for 8-bit integers.
pub trait Weight: Multiply + bytemuck::Pod + Send + Sync {
    /// Element type of the inputs, and of the weights before packing.
    type Input: Element;

    /// Neighbouring inputs that one multiplication consumes.
    const RUN: usize;

    /// What a row's weights are to be divided by to fit this form, if it needs that.
    fn scale(row: &[Self::Input]) -> Option<f32>;

    /// A weight divided by its row's scale (1 where there is none) in this form.
    fn pack(weight: Self::Input, scale: f32) -> Self;

    /// The weight that this stands for, where `scale` is its row's.
    fn unpack(self, scale: f32) -> f32;

    /// `x` `[rows, n_in]` in the form in which it is multiplied with such weights, `[rows,`
    /// [`row_len`](Self::row_len)`(n_in)]`.
    fn operands<'a>(pool: &WorkerPool, x: &'a [Self::Input], n_in: usize) -> Cow<'a, [Self::Operand]>;

    /// Operands that a row of `n_in` inputs becomes.
    fn row_len(n_in: usize) -> usize;
}

impl<E: Element> Weight for E {
    type Input = E;

    const RUN: usize = E::PAIR;

    fn scale(_row: &[E]) -> Option<f32> {
        None
    }

    fn pack(weight: E, _scale: f32) -> E {
        weight
    }

    fn unpack(self, _scale: f32) -> f32 {
        self.to_f32()
    }

    fn operands<'a>(_pool: &WorkerPool, x: &'a [E], _n_in: usize) -> Cow<'a, [E]> {
        Cow::Borrowed(x)
    }

    fn row_len(n_in: usize) -> usize {
        n_in
    }
}

//! 8-bit weights: half the bytes of bf16, for models whose every digit does not matter.
//!
//! A draft model only proposes; what it gets wrong costs a little acceptance, what it reads costs
//! time at every step. So its weights may be coarse. A row of weights (one output) is divided by
//! one scale and rounded to the integers from -127 to 127. Inputs are rounded when they enter a
//! product, 64 neighbours at a time with a scale of their own, because a few inputs of a row tend
//! to be far greater than all others and would take the digits away from them.
//!
//! Within a group the sum is one of integers and exact. The instruction multiplies unsigned with
//! signed bytes, so weights are kept with 128 added, and the sum starts at what takes that away
//! again: -128 times the sum of the group's inputs.

use std::borrow::Cow;

use half::bf16;

use crate::{Weight, WorkerPool, avx512};

/// Inputs that share a scale.
pub(crate) const GROUP: usize = 64;

/// Rows that a worker rounds at a time; fewer are done by the caller alone.
const ROWS_PER_CHUNK: usize = 16;

/// The greatest magnitude of a rounded number. Without -128 the range is symmetric.
const GREATEST: f32 = 127.0;

/// What is added to a weight to make it unsigned.
const OFFSET: i32 = 128;

/// An 8-bit weight, of which a row shares a scale. Inputs are bf16.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Int8(u8);

/// Rounded inputs, ready to be multiplied.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Group {
    /// Zeros beyond the end of the row.
    pub(crate) values: [i8; GROUP],
    /// What the values are multiplied with to give the inputs.
    pub(crate) scale: f32,
    /// What a sum of products with weights starts at.
    pub(crate) start: i32,
}

impl Group {
    pub(crate) const ZERO: Self = Self { values: [0; GROUP], scale: 0.0, start: 0 };

    /// The start of sums over values that add up to `sum`.
    pub(crate) fn start(sum: i32) -> i32 {
        -OFFSET * sum
    }
}

impl Weight for Int8 {
    type Input = bf16;

    const RUN: usize = 4;

    fn scale(row: &[bf16]) -> Option<f32> {
        // As integers the magnitudes are in the same order, with NaN above all, so that it stays.
        let greatest = row.iter().map(|weight| weight.to_bits() & 0x7FFF).max();
        Some(scale(bf16::from_bits(greatest.unwrap_or(0)).to_f32()))
    }

    fn pack(weight: bf16, scale: f32) -> Self {
        let rounded = (weight.to_f32() * inverse(scale)).round_ties_even();
        Self((rounded.clamp(-GREATEST, GREATEST) as i32 + OFFSET) as u8)
    }

    fn unpack(self, scale: f32) -> f32 {
        (i32::from(self.0) - OFFSET) as f32 * scale
    }

    fn operands<'a>(pool: &WorkerPool, x: &'a [bf16], n_in: usize) -> Cow<'a, [Group]> {
        let row_len = Self::row_len(n_in);
        let mut groups = vec![Group::ZERO; x.len() / n_in * row_len];
        pool.over_rows(&mut groups, row_len, ROWS_PER_CHUNK, |first, groups| {
            let rows = x[first * n_in..].chunks_exact(n_in);
            for (row, groups) in rows.zip(groups.chunks_exact_mut(row_len)) {
                avx512::round_to_int8(pool.isa(), row, groups);
            }
        });
        Cow::Owned(groups)
    }

    fn row_len(n_in: usize) -> usize {
        n_in.div_ceil(GROUP)
    }
}

/// The scale with which a number of magnitude `greatest` becomes the greatest integer.
pub(crate) fn scale(greatest: f32) -> f32 {
    greatest / GREATEST
}

/// What to multiply with instead of dividing by `scale`. Numbers too small to have an inverse, or
/// not finite, become zeros; the latter are not lost, because the scale itself says so.
pub(crate) fn inverse(scale: f32) -> f32 {
    if scale.is_normal() { 1.0 / scale } else { 0.0 }
}

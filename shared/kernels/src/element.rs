//! The two element types of weights, activations and the KV cache.

use half::bf16;

use crate::avx512::Lanes;

/// An element type the kernels know: [`half::bf16`] or f32.
///
/// Packed data keeps the elements that one instruction consumes for one output beside each
/// other: two for bf16 (a dot product of pairs), one for f32. That number is [`Element::PAIR`].
pub trait Element: Lanes + bytemuck::Pod + Default + Send + Sync {
    /// Neighbouring elements that one multiplication consumes.
    const PAIR: usize;

    /// The element nearest to `value`, ties to even.
    fn from_f32(value: f32) -> Self;

    /// The same value as an f32, exactly.
    fn to_f32(self) -> f32;
}

impl Element for bf16 {
    const PAIR: usize = 2;

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    fn to_f32(self) -> f32 {
        self.to_f32()
    }
}

impl Element for f32 {
    const PAIR: usize = 1;

    fn from_f32(value: f32) -> Self {
        value
    }

    fn to_f32(self) -> f32 {
        self
    }
}

//! Weight values in host memory.

use std::borrow::Cow;

use half::bf16;
use half::slice::HalfFloatSliceExt;

/// A tensor's values, row-major, with its shape as Hugging Face has it (`[out, in]` for a projection).
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor<'a> {
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// The values, as many as the product of the shape.
    pub values: Values<'a>,
}

/// Values in the type the file holds them in: bf16 stays bf16, everything else (f16, quantised) becomes f32.
#[derive(Clone, Debug, PartialEq)]
pub enum Values<'a> {
    /// 16-bit brain floats.
    Bf16(Cow<'a, [bf16]>),
    /// Single precision.
    F32(Cow<'a, [f32]>),
}

impl Values<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Bf16(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// No values at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As bf16, rounded to nearest even; borrowed if they are bf16 already.
    pub fn to_bf16(&self) -> Cow<'_, [bf16]> {
        match self {
            Self::Bf16(values) => Cow::Borrowed(values),
            Self::F32(values) => Cow::Owned(values.iter().copied().map(round).collect()),
        }
    }

    /// As f32, exactly; borrowed if they are f32 already.
    pub fn to_f32(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Bf16(values) => {
                let mut widened = vec![0.0; values.len()];
                values.convert_to_f32_slice(&mut widened);
                Cow::Owned(widened)
            }
            Self::F32(values) => Cow::Borrowed(values),
        }
    }
}

/// To the nearest bf16, ties to even. Written without branches so that it is vectorised: rounding a model one value at
/// a time takes longer than everything else in loading it.
fn round(value: f32) -> bf16 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7FFF + (bits >> 16 & 1));
    // Adding could carry a NaN over into an infinity; a quiet NaN stays one.
    let kept = if value.is_nan() { bits | 0x0040_0000 } else { nearest };
    bf16::from_bits((kept >> 16) as u16)
}

/// Little-endian bytes as numbers: in place where they are aligned (both file forms align tensors), else copied.
pub(super) fn view<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(bytes: &[u8]) -> Cow<'_, [T]> {
    bytemuck::try_cast_slice(bytes).map_or_else(
        |_| Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
        Cow::Borrowed,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even() {
        let scattered = (0..1 << 20).map(|i: u32| f32::from_bits(i.wrapping_mul(4093)));
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45];
        let ties = (0..64_u32).map(|i| f32::from_bits(0x3F80_8000 + (i << 16)));
        for value in scattered.chain(special).chain(ties) {
            let expected = bf16::from_f32(value);
            assert_eq!(round(value).is_nan(), expected.is_nan());
            assert!(value.is_nan() || round(value) == expected, "{value:e}");
        }
    }

    #[test]
    fn unaligned_bytes_are_copied() {
        let bytes: Vec<u8> = [0_u8].into_iter().chain(2.5_f32.to_le_bytes()).chain((-1.0_f32).to_le_bytes()).collect();
        assert_eq!(view::<f32>(&bytes[1..]).as_ref(), [2.5, -1.0]);
    }
}

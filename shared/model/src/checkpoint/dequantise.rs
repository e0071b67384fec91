//! Quantised blocks back to f32.
//!
//! GGML stores a row of weights as blocks of 32 or 256 values. Each block holds small integers and one or two scales;
//! a value is `scale * integer` or `scale * integer + minimum`. The K kinds divide a block of 256 into groups whose own
//! scales are quantised once more. The layouts follow the reference implementation in GGML; the golden files in
//! `tests/golden/dequantise` were made with the Python package `gguf`, and results agree with it bit for bit.

mod k_quants;
mod legacy;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::tensor::view;

/// How the values of a tensor are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantisation {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

impl Quantisation {
    /// For error messages.
    pub(super) const SUPPORTED: &str =
        "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K or Q6_K weights";

    /// From the number of a type in GGML; the type's name if it is not supported.
    pub(super) fn from_ggml(number: u32) -> Result<Self, String> {
        Ok(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            10 => Self::Q2K,
            11 => Self::Q3K,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            other => return Err(unsupported_name(other)),
        })
    }

    /// Values in a block.
    pub(super) fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K => k_quants::BLOCK_LEN,
        }
    }

    /// Bytes of a block.
    fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 2 + 16,
            Self::Q4_1 => 2 + 2 + 16,
            Self::Q5_0 => 2 + 4 + 16,
            Self::Q5_1 => 2 + 2 + 4 + 16,
            Self::Q8_0 => 2 + 32,
            Self::Q2K => 16 + 64 + 2 + 2,
            Self::Q3K => 32 + 64 + 12 + 2,
            Self::Q4K => 2 + 2 + 12 + 128,
            Self::Q5K => 2 + 2 + 12 + 32 + 128,
            Self::Q6K => 128 + 64 + 16 + 2,
        }
    }

    /// Bytes of a tensor with rows of `row_len` and the given outer sizes; `None` if a row is no whole number of blocks
    /// or the product overflows.
    pub(super) fn n_bytes(self, row_len: usize, outer: &[usize]) -> Option<usize> {
        if !row_len.is_multiple_of(self.block_len()) {
            return None;
        }
        let row_bytes = (row_len / self.block_len()).checked_mul(self.block_bytes())?;
        // The values must be countable too: they will be allocated in f32.
        let n_rows = outer.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        row_len.checked_mul(n_rows)?.checked_mul(4)?;
        row_bytes.checked_mul(n_rows)
    }

    /// Decodes whole blocks. `out` has as many values as `bytes` hold.
    pub(super) fn dequantise(self, bytes: &[u8], out: &mut [f32]) {
        let block: fn(&[u8], &mut [f32]) = match self {
            Self::F32 => return out.copy_from_slice(&view(bytes)),
            Self::F16 => return view::<f16>(bytes).convert_to_f32_slice(out),
            Self::Bf16 => return view::<bf16>(bytes).convert_to_f32_slice(out),
            Self::Q4_0 => legacy::q4_0,
            Self::Q4_1 => legacy::q4_1,
            Self::Q5_0 => legacy::q5_0,
            Self::Q5_1 => legacy::q5_1,
            Self::Q8_0 => legacy::q8_0,
            Self::Q2K => k_quants::q2_k,
            Self::Q3K => k_quants::q3_k,
            Self::Q4K => k_quants::q4_k,
            Self::Q5K => k_quants::q5_k,
            Self::Q6K => k_quants::q6_k,
        };
        for (bytes, out) in bytes.chunks_exact(self.block_bytes()).zip(out.chunks_exact_mut(self.block_len())) {
            block(bytes, out);
        }
    }
}

/// A half-precision scale at `offset` of a block.
fn scale(block: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

fn unsupported_name(number: u32) -> String {
    let name = match number {
        9 => "Q8_1",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        other => return format!("number {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests;

//! How to load a model.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use tch::Kind;

use crate::device::Device;
use crate::kv_cache::BLOCK_TOKENS;

/// How to load a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOptions {
    /// Where it computes.
    pub device: Device,
    /// Type of weights, activations and KV memory.
    pub dtype: Dtype,
    /// Threads that compute a step on a CPU; one per core if not given.
    pub threads: Option<NonZeroUsize>,
    /// KV memory in tokens, over all sequences. Rounded up to whole blocks.
    pub kv_tokens: usize,
    /// Which implementation of the operators computes.
    pub operators: Operators,
}

impl Default for LoadOptions {
    /// Room for sixteen sequences of a thousand tokens.
    fn default() -> Self {
        Self {
            device: Device::default(),
            dtype: Dtype::default(),
            threads: None,
            kv_tokens: 16 * 1024,
            operators: Operators::default(),
        }
    }
}

impl LoadOptions {
    pub(crate) fn n_blocks(&self) -> usize {
        self.kv_tokens.div_ceil(BLOCK_TOKENS)
    }
}

/// Type of weights, activations and KV memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dtype {
    /// 16 bits: half the memory to read, and what most checkpoints hold.
    #[default]
    Bf16,
    /// Weights of 8 bits with a scale per row, all else as with bf16: half the memory to read again, for drafts,
    /// which decide only how much is proposed well. Needs the fused operators.
    Int8,
    /// 32 bits.
    F32,
}

impl Dtype {
    /// Element type of activations and KV memory.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Bf16 | Self::Int8 => Kind::BFloat16,
            Self::F32 => Kind::Float,
        }
    }
}

/// Which implementation of the operators computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operators {
    /// The fused ones where they can run, else libtorch's.
    #[default]
    Auto,
    /// Our own, for CPUs with AVX-512 BF16 and VNNI.
    Fused,
    /// libtorch's, on any device.
    Libtorch,
}

/// A name that none of the choices has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {name:?}; use {choices}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    choices: &'static str,
}

impl FromStr for Dtype {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "bf16" => Ok(Self::Bf16),
            "int8" => Ok(Self::Int8),
            "f32" => Ok(Self::F32),
            _ => Err(UnknownName { what: "dtype", name: name.into(), choices: "bf16, int8 or f32" }),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::F32 => "f32",
        })
    }
}

impl FromStr for Operators {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "auto" => Ok(Self::Auto),
            "fused" => Ok(Self::Fused),
            "libtorch" => Ok(Self::Libtorch),
            _ => Err(UnknownName { what: "operators", name: name.into(), choices: "auto, fused or libtorch" }),
        }
    }
}

impl fmt::Display for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Fused => "fused",
            Self::Libtorch => "libtorch",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_list_the_choices() {
        for name in ["bf16", "int8", "f32"] {
            assert_eq!(name.parse::<Dtype>().unwrap().to_string(), name);
        }
        for name in ["auto", "fused", "libtorch"] {
            assert_eq!(name.parse::<Operators>().unwrap().to_string(), name);
        }
        assert_eq!("f16".parse::<Dtype>().unwrap_err().to_string(), r#"unknown dtype "f16"; use bf16, int8 or f32"#);
        assert!("mkl".parse::<Operators>().unwrap_err().to_string().contains("auto, fused or libtorch"));
    }
}

//! Loading models and the golden numbers beside them.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use safetensors::SafeTensors;
use specfleet_model::batch::LanguageModel;
use specfleet_model::device::Device;
use specfleet_model::load::{Dtype, Error, LoadOptions, Operators, load};
use specfleet_speculation::TokenId;

/// A sequence and the logits of each of its positions.
pub(crate) struct Golden {
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) logits: Vec<Vec<f32>>,
}

pub(crate) const BOTH_OPERATORS: [Operators; 2] = [Operators::Libtorch, Operators::Fused];

/// Checkpoints (file or folder) and the folders that hold their logits.
pub(crate) const CHECKPOINTS: [(&str, &str); 7] = [
    ("llama3", "llama3"),
    ("smollm2", "smollm2"),
    ("smollm2.gguf", "smollm2"),
    ("mistral", "mistral"),
    ("qwen2", "qwen2"),
    ("qwen3", "qwen3"),
    ("reduced-head", "reduced-head"),
];

pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

pub(crate) fn options(operators: Operators, dtype: Dtype) -> LoadOptions {
    // libtorch's threads wait for each other at every operator, which takes long beside other tests.
    let threads = NonZeroUsize::new(if operators == Operators::Libtorch { 1 } else { 2 });
    LoadOptions { device: Device::Cpu, dtype, threads, kv_tokens: 512, operators }
}

/// The model, or `None` with a note where this machine cannot run the fused operators.
pub(crate) fn model(name: &str, options: &LoadOptions) -> Option<Box<dyn LanguageModel>> {
    match load(&path(name), options) {
        Ok(loaded) => Some(loaded.model),
        Err(Error::FusedUnavailable { reason } | Error::Int8Unavailable { reason }) => {
            let required = std::env::var_os("SPECFLEET_TEST_REQUIRE_FUSED").is_some();
            assert!(!required, "the fused operators cannot run here, and their tests are required: {reason}");
            println!("skipped: the fused operators cannot run here: {reason}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

pub(crate) fn golden(folder: &str) -> Vec<Golden> {
    let bytes = std::fs::read(path(folder).join("logits.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let sequence = |index: usize| {
        let tokens = tensors.tensor(&format!("tokens.{index}")).ok()?;
        let logits = tensors.tensor(&format!("logits.{index}")).ok()?;
        let width = logits.shape()[1];
        let values = |bytes: &[u8]| -> Vec<[u8; 4]> { bytes.as_chunks::<4>().0.to_vec() };
        let all: Vec<f32> = values(logits.data()).into_iter().map(f32::from_le_bytes).collect();
        Some(Golden {
            tokens: values(tokens.data()).into_iter().map(TokenId::from_le_bytes).collect(),
            logits: all.chunks(width).map(<[f32]>::to_vec).collect(),
        })
    };
    (0..).map_while(sequence).collect()
}

use std::{num::NonZeroUsize, path::PathBuf};

use clap::Args;
use specfleet_model::{
    device::Device,
    load::{Dtype, LoadOptions, Operators},
};

use crate::Problems;

/// Which model computes, where and in what memory.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// The model: a .gguf file, or a folder with config.json, safetensors and tokenizer.json.
    #[arg(long, env = "SPECFLEET_MODEL", value_name = "PATH")]
    pub model: Option<PathBuf>,

    /// Where it computes: auto, cpu or cuda:N. auto takes the first CUDA device if there is one.
    #[arg(long, env = "SPECFLEET_DEVICE", value_name = "DEVICE", default_value_t)]
    pub device: Device,

    /// Type of weights and KV memory: bf16, int8 or f32. bf16 by default: a step is as fast as its weights are read,
    /// and most checkpoints hold no more bits. int8 is for drafts: 8-bit weights (KV memory stays bf16) make a step
    /// cheaper and may cost a little acceptance, never correctness. It needs the fused operators.
    #[arg(long, env = "SPECFLEET_DTYPE", value_name = "TYPE", default_value_t)]
    pub dtype: Dtype,

    /// Threads that compute on a CPU. One per core by default; fewer where another service computes on the same cores,
    /// because threads that wait for each other must all be running.
    #[arg(long, env = "SPECFLEET_THREADS", value_name = "N")]
    pub threads: Option<NonZeroUsize>,

    /// KV memory, in tokens over all sequences together, allocated at start. The default holds 16 sequences of 1024
    /// tokens.
    #[arg(long, env = "SPECFLEET_KV_TOKENS", value_name = "TOKENS", default_value_t = LoadOptions::default().kv_tokens)]
    pub kv_tokens: usize,

    /// Which operators compute: auto, fused (our own, CPUs with AVX-512 BF16 and VNNI) or libtorch (any device). auto
    /// takes the fused ones where they run.
    #[arg(long, env = "SPECFLEET_OPERATORS", value_name = "WHICH", default_value_t)]
    pub operators: Operators,
}

impl ModelArgs {
    /// The same, as the model crate wants it.
    pub fn load_options(&self) -> LoadOptions {
        LoadOptions {
            device: self.device,
            dtype: self.dtype,
            threads: self.threads,
            kv_tokens: self.kv_tokens,
            operators: self.operators,
        }
    }

    /// Adds what cannot work to `problems`. Whether a model is needed at all is the service's to say.
    pub fn validate(&self, problems: &mut Problems) {
        problems.check("--kv-tokens", self.kv_tokens > 0, || {
            "is 0, must hold at least one sequence, for example 16384".into()
        });
        if let Some(path) = &self.model {
            problems.check("--model", path.exists(), || format!("is {}, which does not exist", path.display()));
        }
    }
}

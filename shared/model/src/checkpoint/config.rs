//! The architecture of a decoder-only transformer, in numbers.

use std::fmt::Write as _;
use std::path::Path;

use super::error::Error;
use super::rope::Rope;

/// Families of decoder blocks. They share RMSNorm, rotary positions, grouped-query attention and SwiGLU; what differs
/// is noted at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama and what computes like it (Mistral without a sliding window, SmolLM2, TinyLlama).
    Llama,
    /// Bias on the query, key and value projections.
    Qwen2,
    /// RMSNorm on each head of the queries and keys, before the rotation.
    Qwen3,
}

impl Architecture {
    /// The name in identities and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }
}

/// The architecture in numbers. Sizes count elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The family of blocks.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Number of blocks.
    pub n_layers: usize,
    /// Query heads.
    pub n_heads: usize,
    /// Key and value heads; divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of one head. `n_heads * head_dim` need not equal `hidden_size`.
    pub head_dim: usize,
    /// Width of the feed-forward layer.
    pub ffn_size: usize,
    /// Rows of the embedding, padding included: every id is below it.
    pub vocab_size: usize,
    /// Added to the mean square in RMSNorm.
    pub rms_norm_eps: f32,
    /// Rotary positions.
    pub rope: Rope,
    /// Positions the model was trained to hold.
    pub context_length: usize,
    /// The output head is the embedding.
    pub tied_embeddings: bool,
    /// The query, key and value projections add a bias.
    pub qkv_bias: bool,
    /// The attention's output projection adds a bias.
    pub output_bias: bool,
}

impl Config {
    /// Width of all query heads together.
    pub fn q_width(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Width of all key heads (or all value heads) together.
    pub fn kv_width(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// Queries and keys are normalised per head before the rotation.
    pub fn has_qk_norm(&self) -> bool {
        self.architecture == Architecture::Qwen3
    }

    /// One line per field in a fixed order: the form that goes into an identity. The same model gives the same text
    /// whether it was read from a GGUF file or from a folder.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key}={value}");
        };
        line("architecture", &self.architecture.name());
        line("hidden_size", &self.hidden_size);
        line("n_layers", &self.n_layers);
        line("n_heads", &self.n_heads);
        line("n_kv_heads", &self.n_kv_heads);
        line("head_dim", &self.head_dim);
        line("ffn_size", &self.ffn_size);
        line("vocab_size", &self.vocab_size);
        line("rms_norm_eps", &self.rms_norm_eps);
        line("rope", &self.rope.canonical());
        line("context_length", &self.context_length);
        line("tied_embeddings", &self.tied_embeddings);
        line("qkv_bias", &self.qkv_bias);
        line("output_bias", &self.output_bias);
        text
    }

    /// Refuses numbers that no model can have, so that later arithmetic (divisions, products) is safe.
    pub(super) fn validate(&self, path: &Path) -> Result<(), Error> {
        let mut problems = Vec::new();
        for (name, value, largest) in [
            ("hidden size", self.hidden_size, 1 << 20),
            ("number of layers", self.n_layers, 1 << 10),
            ("number of heads", self.n_heads, 1 << 12),
            ("number of key-value heads", self.n_kv_heads, 1 << 12),
            ("head size", self.head_dim, 1 << 12),
            ("feed-forward size", self.ffn_size, 1 << 22),
            ("vocabulary size", self.vocab_size, 1 << 24),
            ("context length", self.context_length, 1 << 30),
        ] {
            if value == 0 || value > largest {
                problems.push(format!("the {name} is {value}, expected 1 to {largest}"));
            }
        }
        if self.n_kv_heads > 0 && !self.n_heads.is_multiple_of(self.n_kv_heads) {
            problems.push(format!("{} heads cannot share {} key-value heads evenly", self.n_heads, self.n_kv_heads));
        }
        if !self.head_dim.is_multiple_of(2) {
            problems.push(format!("the head size is {}, but rotary positions need an even one", self.head_dim));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            problems.push(format!("the RMSNorm epsilon is {}, expected a positive number", self.rms_norm_eps));
        }
        problems.extend(self.rope.problems(self.head_dim));
        if problems.is_empty() { Ok(()) } else { Err(Error::incomplete(path, problems)) }
    }
}

//! What a model is to the rest of the system: rows of several sequences go in, rows of logits come out.
//!
//! A batch is ragged. One [`Segment`] may hold a prompt chunk of 300 tokens, the next the five rows of a
//! verification, the next a single token; no row is padded and no sequence waits for another. Each segment
//! appends its tokens to its own [`KvSequence`], and says for which of its rows it wants logits, because the
//! output head is the largest matrix of a small model and most prompt rows do not need it.

use std::sync::Arc;

use specfleet_speculation::TokenId;

use crate::kv_cache::{KvCache, KvSequence};

mod check;

pub use check::ForwardError;
pub(crate) use check::check_segments;

/// A model that computes logits: a transformer, or a table in tests.
pub trait LanguageModel: Send {
    /// What the model is and how it runs.
    fn description(&self) -> &ModelDescription;

    /// The bookkeeping of its KV memory.
    fn kv(&mut self) -> &mut KvCache;

    /// Computes all segments in one pass. On success each `kv.len()` has grown by its number of tokens.
    ///
    /// A row's logits depend only on the tokens of its own sequence up to that row.
    ///
    /// # Errors
    /// [`ForwardError`]; no `kv.len()` has changed then, so the batch can be retried without the segment at
    /// fault.
    fn forward(&mut self, segments: &mut [Segment<'_>]) -> Result<Logits, ForwardError>;
}

/// Consecutive tokens of one sequence.
#[derive(Debug)]
pub struct Segment<'a> {
    /// Where they go: position `kv.len()` onwards, which must be reserved.
    pub kv: &'a mut KvSequence,
    /// The tokens; at least one.
    pub tokens: &'a [TokenId],
    /// Which rows of logits the caller wants.
    pub logits: WantedLogits,
}

/// Which rows of a segment go through the output head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedLogits {
    /// None: a prompt chunk that is not the last.
    None,
    /// The last row: plain decoding, or the end of a prompt.
    Last,
    /// Every row: verification.
    All,
}

impl WantedLogits {
    /// How many rows of logits a segment of `n_tokens` yields.
    pub fn n_rows(self, n_tokens: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last => n_tokens.min(1),
            Self::All => n_tokens,
        }
    }
}

/// Rows of logits in segment order. Row `i` speaks for ids `0..width`, or, where the description has a
/// `draft_vocab`, for those ids of the target.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    width: usize,
}

impl Logits {
    /// `n_rows` rows of zeros.
    pub fn zeros(n_rows: usize, width: usize) -> Self {
        Self { values: vec![0.0; n_rows * width], width }
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// How many logits a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`. Panics if there is no such row.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }

    /// Row `i`, to be used as scratch. Panics if there is no such row.
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.values[i * self.width..][..self.width]
    }

    /// All rows, one after the other.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

/// What a model is, for the identity, the logs and the cost model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelDescription {
    /// The family as the checkpoint names it: `llama`, `qwen2`, ...
    pub architecture: String,
    /// Token ids are below this number, in the target's numbering.
    pub vocab_size: usize,
    /// Rows of the output head, the width of the logits: `vocab_size`, or the length of `draft_vocab`.
    pub n_rows_of_head: usize,
    /// For a reduced head: row `i` speaks for id `draft_vocab[i]`, ascending.
    pub draft_vocab: Option<Arc<[TokenId]>>,
    /// The longest sequence, prompt included, that the model was made for.
    pub context_length: usize,
    /// Type of weights and KV memory: `bf16`, `int8` (KV memory is bf16) or `f32`.
    pub dtype: String,
    /// Where and how it runs, for people: `cpu (fused)`.
    pub device: String,
    /// Bytes of weights that a step of few rows reads, each matrix once: the floor of its duration.
    pub step_weight_bytes: u64,
    /// Threads that compute a step.
    pub threads: usize,
    /// Digest of the weights and the configuration as loaded.
    pub weights_digest: [u8; 32],
}

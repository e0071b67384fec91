//! A language model that is a table, for tests of everything around a model.
//!
//! A test wants to know the exact distribution after any prefix, and wants mistakes of bookkeeping to show.
//! So this model has a real KV memory in small: it stores the token ids themselves at (block, slot), through
//! the same block tables as a transformer, and computes a row of logits from what it reads back. A rollback
//! that was forgotten, a token at the wrong position or a block of another sequence changes its output.
//!
//! ```
//! use specfleet_model::scripted::ScriptedModel;
//!
//! // What the prefix ends with -> id:weight of what may follow. The longest match counts.
//! let model = ScriptedModel::from_table(
//!     "
//!     *    -> 0:1 1:1 2:2
//!     2    -> 0:9 3:1
//!     0 2  -> 1:1
//!     3    -> nan
//!     ",
//!     4,
//! )?;
//! # Ok::<(), specfleet_model::scripted::table::Error>(())
//! ```

use std::sync::Arc;
use std::time::Duration;

use specfleet_speculation::TokenId;

use crate::batch::{self, ForwardError, LanguageModel, Logits, ModelDescription, Segment};
use crate::kv_cache::{BLOCK_TOKENS, KvCache};

pub mod table;

use table::Table;

/// From a whole prefix to a row of logits over all ids.
type Script = dyn Fn(&[TokenId]) -> Vec<f32> + Send;

/// A model that follows a script.
pub struct ScriptedModel {
    script: Box<Script>,
    description: ModelDescription,
    kv: KvCache,
    /// The token at each (block, slot).
    memory: Vec<TokenId>,
    delay: Duration,
}

impl ScriptedModel {
    /// A model of `vocab_size` ids that computes each row with `script`, which is given the whole prefix and
    /// returns `vocab_size` logits. Rows may hold NaN, for tests of faults.
    pub fn from_fn(vocab_size: usize, script: impl Fn(&[TokenId]) -> Vec<f32> + Send + 'static) -> Self {
        const CONTEXT_LENGTH: usize = 4096;
        let description = ModelDescription {
            architecture: "scripted".into(),
            vocab_size,
            n_rows_of_head: vocab_size,
            draft_vocab: None,
            context_length: CONTEXT_LENGTH,
            dtype: "f32".into(),
            device: "cpu (scripted)".into(),
            step_weight_bytes: 0,
            threads: 1,
            weights_digest: [0; 32],
        };
        let model = Self {
            script: Box::new(script),
            description,
            kv: KvCache::new(0),
            memory: Vec::new(),
            delay: Duration::ZERO,
        };
        model.with_kv_tokens(4 * CONTEXT_LENGTH)
    }

    /// A model that follows a [`Table`] in text form. Its weights digest is the digest of the text.
    ///
    /// # Errors
    /// If the text is not a table over `vocab_size` ids; the message names the line.
    pub fn from_table(text: &str, vocab_size: usize) -> Result<Self, table::Error> {
        let table = Table::parse(text, vocab_size)?;
        let digest = blake3::hash(text.as_bytes()).into();
        Ok(Self::from_fn(vocab_size, move |prefix| table.logits(prefix)).with_weights_digest(digest))
    }

    /// KV memory for this many tokens, empty.
    #[must_use]
    pub fn with_kv_tokens(mut self, kv_tokens: usize) -> Self {
        self.kv = KvCache::new(kv_tokens.div_ceil(BLOCK_TOKENS));
        self.memory = vec![0; self.kv.n_blocks() * BLOCK_TOKENS];
        self
    }

    /// Another context length than 4096.
    #[must_use]
    pub fn with_context_length(mut self, context_length: usize) -> Self {
        self.description.context_length = context_length;
        self
    }

    /// A reduced head: rows hold the logits of `ids` (ascending, below the vocabulary size) only.
    #[must_use]
    pub fn with_draft_vocab(mut self, ids: Vec<TokenId>) -> Self {
        self.description.n_rows_of_head = ids.len();
        self.description.draft_vocab = Some(Arc::from(ids));
        self
    }

    /// Another identity.
    #[must_use]
    pub fn with_weights_digest(mut self, digest: [u8; 32]) -> Self {
        self.description.weights_digest = digest;
        self
    }

    /// Sleeps this long in every forward pass.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Writes the segment's tokens to memory and reads the whole sequence back.
    fn remember(&mut self, segment: &Segment<'_>) -> Vec<TokenId> {
        let start = segment.kv.len();
        let place = |position: usize| {
            segment.kv.blocks()[position / BLOCK_TOKENS] as usize * BLOCK_TOKENS + position % BLOCK_TOKENS
        };
        for (position, &token) in (start..).zip(segment.tokens) {
            self.memory[place(position)] = token;
        }
        (0..start + segment.tokens.len()).map(|position| self.memory[place(position)]).collect()
    }

    fn row(&self, prefix: &[TokenId]) -> Vec<f32> {
        let all = (self.script)(prefix);
        match &self.description.draft_vocab {
            Some(ids) => ids.iter().map(|&id| all[id as usize]).collect(),
            None => all,
        }
    }
}

impl LanguageModel for ScriptedModel {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn kv(&mut self) -> &mut KvCache {
        &mut self.kv
    }

    fn forward(&mut self, segments: &mut [Segment<'_>]) -> Result<Logits, ForwardError> {
        batch::check_segments(segments, &self.description, self.kv.n_blocks())?;
        std::thread::sleep(self.delay);
        let mut rows = Vec::new();
        for segment in segments.iter() {
            let sequence = self.remember(segment);
            let n_wanted = segment.logits.n_rows(segment.tokens.len());
            for end in sequence.len() - n_wanted..sequence.len() {
                rows.push(self.row(&sequence[..=end]));
            }
        }
        let mut logits = Logits::zeros(rows.len(), self.description.n_rows_of_head);
        for (index, row) in rows.iter().enumerate() {
            logits.row_mut(index).copy_from_slice(row);
        }
        for Segment { kv, tokens, .. } in segments {
            kv.advance(tokens.len());
        }
        Ok(logits)
    }
}

#[cfg(test)]
mod tests;

//! Do two runs compute the same numbers?
//!
//! Equal text says little about that: two runs may choose the same tokens from numbers that differ in their last bits,
//! until two logits nearly tie. So tests look at the logits themselves. No service has a hook for it; instead a
//! [`LanguageModel`] that notes what it computes stands where the model stands, and forwards everything else.
//!
//! A row of logits speaks for the prefix that it follows, so that is what it is filed under: whoever computes the row
//! after these tokens, in whatever company, must get these bits. The wrapper sees sequences as the model does, as
//! blocks of KV memory, and so keeps the token ids at (block, slot) itself. A prefix that is reused or rolled back
//! reads right without being told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use specfleet_model::{
    batch::{ForwardError, LanguageModel, Logits, ModelDescription, Segment},
    kv_cache::{BLOCK_TOKENS, KvCache},
    load::Loaded,
};
use specfleet_protocol::PrefixDigest;
use specfleet_speculation::TokenId;

/// What the models that it observes have computed. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Notebook {
    notes: Arc<Mutex<Notes>>,
}

/// A row of logits, as far as tests compare rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Digest of the bits of all logits.
    bits: [u8; 32],
    /// The two greatest logits and their ids; the lower id first on ties.
    pub top: [(TokenId, f32); 2],
    /// What the notebook was turned to when the row was first noted.
    pub occasion: Arc<str>,
}

#[derive(Debug, Default)]
struct Notes {
    /// By the digest of the prefix: rows with different bits, each once.
    rows: HashMap<u64, Noted>,
    n_rows: usize,
    occasion: Arc<str>,
    /// Of the pass with the most sequences since the occasion began.
    largest_pass: Pass,
}

#[derive(Debug, Default)]
struct Noted {
    n_times: usize,
    variants: Vec<Row>,
}

/// How much was computed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    /// Sequences that had rows in it.
    pub n_sequences: usize,
    /// Rows in all.
    pub n_rows: usize,
}

impl Notebook {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same model, which notes here what it computes.
    pub fn observe(&self, mut loaded: Loaded) -> Loaded {
        let memory = vec![0; loaded.model.kv().n_blocks() * BLOCK_TOKENS];
        let observed = RecordingModel { model: loaded.model, memory, notebook: self.clone() };
        Loaded { model: Box::new(observed), ..loaded }
    }

    /// Names what is done from now on, for messages about rows that are noted then.
    pub fn turn_to(&self, occasion: &str) {
        let mut notes = self.lock();
        notes.occasion = occasion.into();
        notes.largest_pass = Pass::default();
    }

    /// The pass with the most sequences, and of those the one with the most rows, since the occasion began.
    pub fn largest_pass(&self) -> Pass {
        self.lock().largest_pass
    }

    /// Rows that were noted in all.
    pub fn n_rows(&self) -> usize {
        self.lock().n_rows
    }

    /// How often a row was computed after `prefix`.
    pub fn n_times(&self, prefix: &[TokenId]) -> usize {
        self.lock().rows.get(&PrefixDigest::of(prefix).value()).map_or(0, |noted| noted.n_times)
    }

    /// All different rows that were computed after `prefix`, in order of first appearance: one, if bits are kept.
    pub fn variants(&self, prefix: &[TokenId]) -> Vec<Row> {
        let notes = self.lock();
        notes.rows.get(&PrefixDigest::of(prefix).value()).map_or_else(Vec::new, |noted| noted.variants.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn of(logits: &[f32], occasion: &Arc<str>) -> Self {
        let bits = blake3::hash(bytemuck::cast_slice(logits)).into();
        Self { bits, top: top_two(logits), occasion: occasion.clone() }
    }

    /// Whether all logits have the same bits.
    pub fn same_bits(&self, other: &Self) -> bool {
        self.bits == other.bits
    }

    /// How far the best token is ahead of the next.
    pub fn gap(&self) -> f32 {
        self.top[0].1 - self.top[1].1
    }
}

/// A model that notes what it computes.
struct RecordingModel {
    model: Box<dyn LanguageModel>,
    /// The token at each (block, slot).
    memory: Vec<TokenId>,
    notebook: Notebook,
}

impl RecordingModel {
    /// Writes the segment's tokens to memory and returns the digest of what stood before them.
    fn remember(&mut self, segment: &Segment<'_>) -> PrefixDigest {
        let place = |position: usize| {
            segment.kv.blocks()[position / BLOCK_TOKENS] as usize * BLOCK_TOKENS + position % BLOCK_TOKENS
        };
        let start = segment.kv.len();
        let before: Vec<TokenId> = (0..start).map(|position| self.memory[place(position)]).collect();
        for (position, &token) in (start..).zip(segment.tokens) {
            self.memory[place(position)] = token;
        }
        PrefixDigest::of(&before)
    }
}

impl LanguageModel for RecordingModel {
    fn description(&self) -> &ModelDescription {
        self.model.description()
    }

    fn kv(&mut self) -> &mut KvCache {
        self.model.kv()
    }

    fn forward(&mut self, segments: &mut [Segment<'_>]) -> Result<Logits, ForwardError> {
        let before: Vec<PrefixDigest> = segments.iter().map(|segment| self.remember(segment)).collect();
        let logits = self.model.forward(segments)?;
        let mut notes = self.notebook.lock();
        let mut n_noted = 0;
        for (segment, mut prefix) in segments.iter().zip(before) {
            let n_tokens = segment.tokens.len();
            let first_wanted = n_tokens - segment.logits.n_rows(n_tokens);
            for (index, &token) in segment.tokens.iter().enumerate() {
                prefix.extend(&[token]);
                if index >= first_wanted {
                    notes.note(prefix.value(), logits.row(n_noted));
                    n_noted += 1;
                }
            }
        }
        let n_rows = segments.iter().map(|segment| segment.tokens.len()).sum();
        notes.largest_pass = notes.largest_pass.max(Pass { n_sequences: segments.len(), n_rows });
        Ok(logits)
    }
}

impl Notes {
    fn note(&mut self, prefix: u64, logits: &[f32]) {
        let row = Row::of(logits, &self.occasion);
        let noted = self.rows.entry(prefix).or_default();
        noted.n_times += 1;
        self.n_rows += 1;
        if !noted.variants.iter().any(|variant| variant.same_bits(&row)) {
            noted.variants.push(row);
        }
    }
}

fn top_two(logits: &[f32]) -> [(TokenId, f32); 2] {
    let mut top = [(0, f32::NEG_INFINITY); 2];
    for (id, &logit) in (0..).zip(logits) {
        if logit > top[0].1 {
            top = [(id, logit), top[0]];
        } else if logit > top[1].1 {
            top[1] = (id, logit);
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use specfleet_model::{batch::WantedLogits, scripted::ScriptedModel};

    use super::*;

    /// Feeds `tokens` to a new sequence, `chunk` at a time, all rows wanted.
    fn feed(model: &mut dyn LanguageModel, tokens: &[TokenId], chunk: usize) {
        let mut kv = model.kv().start(&[]);
        for tokens in tokens.chunks(chunk) {
            let len = kv.len() + tokens.len();
            model.kv().reserve(&mut kv, len).unwrap();
            model.forward(&mut [Segment { kv: &mut kv, tokens, logits: WantedLogits::All }]).unwrap();
        }
        model.kv().release(kv);
    }

    fn observed(
        notebook: &Notebook,
        script: impl Fn(&[TokenId]) -> Vec<f32> + Send + 'static,
    ) -> Box<dyn LanguageModel> {
        let mut model: Box<dyn LanguageModel> = Box::new(ScriptedModel::from_fn(3, script));
        let memory = vec![0; model.kv().n_blocks() * BLOCK_TOKENS];
        Box::new(RecordingModel { model, memory, notebook: notebook.clone() })
    }

    #[test]
    fn rows_are_filed_under_the_prefix_that_they_follow() {
        let notebook = Notebook::new();
        let mut model = observed(&notebook, |prefix| vec![prefix.len() as f32, 0.0, 1.5]);
        let tokens: Vec<TokenId> = (0..40).map(|i| i % 3).collect();
        feed(&mut *model, &tokens, 40);
        feed(&mut *model, &tokens, 7);
        for end in 1..=40 {
            let variants = notebook.variants(&tokens[..end]);
            assert_eq!((variants.len(), notebook.n_times(&tokens[..end])), (1, 2));
            assert_eq!(variants[0].gap(), (end as f32 - 1.5).abs());
        }
        assert!(notebook.variants(&[1, 0]).is_empty(), "nobody computed that");
        assert_eq!(notebook.largest_pass(), Pass { n_sequences: 1, n_rows: 40 });
    }

    #[test]
    fn a_bit_that_depends_on_the_way_is_seen() {
        let notebook = Notebook::new();
        let number = std::sync::atomic::AtomicU32::new(0);
        let last_bit = move |_: &[TokenId]| {
            let odd = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1;
            vec![1.0, if odd { 1.0_f32.next_up() } else { 1.0 }, 0.0]
        };
        let mut model = observed(&notebook, last_bit);
        notebook.turn_to("once");
        feed(&mut *model, &[2], 1);
        notebook.turn_to("again");
        feed(&mut *model, &[2], 1);
        let variants = notebook.variants(&[2]);
        assert_eq!(variants.iter().map(|row| &*row.occasion).collect::<Vec<_>>(), ["once", "again"]);
        assert_eq!(variants.iter().map(|row| row.top[0].0).collect::<Vec<_>>(), [0, 1], "lowest id on ties");
    }
}

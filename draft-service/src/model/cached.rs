//! Which tokens of a session have their keys and values in the model's memory, and how they are taken back.

use specfleet_model::kv_cache::{KvCache, KvSequence, OutOfBlocks};
use specfleet_speculation::TokenId;

use crate::engine::draft::Draft;

/// A session's share of the KV memory, and the tokens that it was computed from.
pub(crate) struct Cached {
    kv: KvSequence,
    /// As many as `kv.len()`.
    tokens: Vec<TokenId>,
    /// How many of them, from the first on, are known to be committed.
    n_agreed: usize,
    published: bool,
}

impl Cached {
    /// Starts with what earlier sessions left of the same prefix.
    pub(crate) fn start(cache: &mut KvCache, committed: &[TokenId]) -> Self {
        let kv = cache.start(committed);
        let tokens = committed[..kv.len()].to_vec();
        Self { n_agreed: tokens.len(), kv, tokens, published: false }
    }

    /// How many tokens are computed.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The blocks that it holds, some of them perhaps together with others.
    pub(crate) fn blocks(&self) -> &[u32] {
        self.kv.blocks()
    }

    pub(crate) fn kv(&mut self) -> &mut KvSequence {
        &mut self.kv
    }

    /// Takes back what was computed from tokens that were not committed, and at least the last committed token, whose
    /// logits the next draft begins with.
    pub(crate) fn agree(&mut self, cache: &mut KvCache, committed: &[TokenId]) {
        let unchecked = self.tokens[self.n_agreed..].iter().zip(&committed[self.n_agreed..]);
        let n_confirmed = unchecked.take_while(|(cached, committed)| cached == committed).count();
        let n_kept = (self.n_agreed + n_confirmed).min(committed.len().saturating_sub(1));
        cache.truncate(&mut self.kv, n_kept);
        // A block that others read is left whole, so that more may be gone than was asked for.
        self.tokens.truncate(self.kv.len());
        self.n_agreed = self.kv.len();
    }

    /// Makes room for `n_tokens` in all.
    pub(crate) fn reserve(&mut self, cache: &mut KvCache, n_tokens: usize) -> Result<(), OutOfBlocks> {
        cache.reserve(&mut self.kv, n_tokens)
    }

    /// Notes that a forward pass has ingested the next `n_rows` of (committed, then drafted).
    pub(crate) fn record(&mut self, committed: &[TokenId], draft: Option<&Draft>, n_rows: usize) {
        let drafted = draft.map(Draft::tokens).unwrap_or_default();
        let sequence = committed.iter().chain(drafted);
        self.tokens.extend(sequence.skip(self.tokens.len()).take(n_rows));
        debug_assert_eq!(self.tokens.len(), self.kv.len());
    }

    /// Once the prefix is computed, lets other sessions with the same one start from it.
    pub(crate) fn publish_once(&mut self, cache: &mut KvCache, committed: &[TokenId]) {
        if !self.published && self.tokens.len() + 1 >= committed.len() {
            cache.publish(&self.kv, committed);
            self.published = true;
        }
    }

    /// Gives the memory back. What is left of it must be committed.
    pub(crate) fn end(self, cache: &mut KvCache, committed: &[TokenId]) {
        cache.publish(&self.kv, committed);
        cache.release(self.kv);
    }
}

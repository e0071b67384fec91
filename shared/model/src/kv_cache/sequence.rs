//! A sequence's list of blocks.

use super::BLOCK_TOKENS;

/// One sequence's share of the KV memory.
///
/// [`KvCache::start`](super::KvCache::start) makes it and [`KvCache::release`](super::KvCache::release) takes
/// it back: dropping it instead leaks its blocks for the life of the cache.
#[derive(Debug, Default)]
#[must_use = "blocks return to the cache only through `KvCache::release`"]
pub struct KvSequence {
    pub(super) blocks: Vec<u32>,
    pub(super) len: usize,
}

impl KvSequence {
    /// How many tokens have their keys and values in the cache.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing has been computed (or reused) yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks in order: position `i` is slot `i % BLOCK_TOKENS` of `blocks()[i / BLOCK_TOKENS]`.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// How many tokens fit without another reservation.
    pub fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK_TOKENS
    }

    /// Records that a forward pass has written `n_tokens` more positions. For implementations of
    /// [`LanguageModel`](crate::batch::LanguageModel), which check the capacity before they compute.
    pub fn advance(&mut self, n_tokens: usize) {
        debug_assert!(self.len + n_tokens <= self.capacity());
        self.len += n_tokens;
    }
}

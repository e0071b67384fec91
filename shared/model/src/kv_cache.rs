//! Which block of KV memory belongs to which sequence.
//!
//! The keys and values of all sequences live in one pool per layer, cut into blocks of [`BLOCK_TOKENS`]
//! positions. A sequence is a list of block numbers and a length, so that sequences of any length share the
//! pool without moving data, a rollback is a shorter length, and a prefix that was computed before is a list
//! of block numbers to start from. (Kwon et al., "Efficient Memory Management for Large Language Model
//! Serving with PagedAttention", 2023, section 4.)
//!
//! This file is bookkeeping only: it never sees a tensor. Three promises hold at all times, and the property
//! test in `kv_cache/tests.rs` checks them against a simple model:
//!
//! - A block that a sequence may write to is in no other sequence.
//! - `n_available()` plus the number of distinct blocks in sequences is `n_blocks()`.
//! - A prefix is reused only if its token ids are equal, whole block by whole block, from the first token on.
//!
//! The last one does not rest on a hash without collisions. Every published block gets a serial number that is
//! never used again, and a block is found by its predecessor's serial and its own sixteen token ids, compared
//! in full. A block whose predecessor was evicted can no longer be found, which is all that eviction needs.

use specfleet_speculation::TokenId;

mod blocks;
mod sequence;

use blocks::{Blocks, Link, Serial};
pub use sequence::KvSequence;

/// How many positions one block holds. Equal to the tile width of the attention kernels.
pub const BLOCK_TOKENS: usize = 16;

/// There are not enough blocks for what was asked; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("KV memory is full: {needed} more blocks of {BLOCK_TOKENS} tokens needed, {available} available")]
pub struct OutOfBlocks {
    /// Blocks that the reservation needs beyond those the sequence has.
    pub needed: usize,
    /// Blocks that are free or hold only a reusable prefix.
    pub available: usize,
}

/// The blocks of one model's KV memory and who has them.
#[derive(Debug)]
pub struct KvCache {
    blocks: Blocks,
}

impl KvCache {
    /// A cache of `n_blocks` blocks, all free.
    pub fn new(n_blocks: usize) -> Self {
        Self { blocks: Blocks::new(n_blocks) }
    }

    /// All blocks, whoever has them.
    pub fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that a reservation can get: free ones, and reusable ones, which it would evict.
    pub fn n_available(&self) -> usize {
        self.blocks.n_available()
    }

    /// Begins a sequence with the longest prefix of `tokens` that is known, in whole blocks. At least one
    /// token is always left to compute, since somebody wants its logits. `len()` says how many were reused.
    pub fn start(&mut self, tokens: &[TokenId]) -> KvSequence {
        let computed_anew = 1;
        let reusable = &tokens[..tokens.len().saturating_sub(computed_anew)];
        let mut sequence = KvSequence::default();
        let mut predecessor = Serial::ROOT;
        for &tokens in reusable.as_chunks::<BLOCK_TOKENS>().0 {
            let Some((id, serial)) = self.blocks.find(&Link { predecessor, tokens }) else { break };
            predecessor = serial;
            self.blocks.take_shared(id);
            sequence.blocks.push(id);
            sequence.len += BLOCK_TOKENS;
        }
        sequence
    }

    /// Makes room for `len` tokens in all.
    ///
    /// # Errors
    /// [`OutOfBlocks`] if that needs more blocks than are available; the sequence keeps what it has.
    pub fn reserve(&mut self, sequence: &mut KvSequence, len: usize) -> Result<(), OutOfBlocks> {
        let needed = len.div_ceil(BLOCK_TOKENS).saturating_sub(sequence.blocks.len());
        let available = self.n_available();
        if needed > available {
            return Err(OutOfBlocks { needed, available });
        }
        sequence.blocks.extend((0..needed).map_while(|_| self.blocks.take_private()));
        Ok(())
    }

    /// Rolls back to `len` tokens and gives spare blocks back. A greater `len` than the sequence has changes
    /// no length and only returns reserved blocks.
    ///
    /// If `len` falls inside a block that another sequence reads too, the sequence shrinks to the start of
    /// that block, because the next token must not be written into it: `len()` tells where to go on. Rolling
    /// back tokens that were never published, as a verifier does with rejected ones, never meets this.
    pub fn truncate(&mut self, sequence: &mut KvSequence, len: usize) {
        let mut len = len.min(sequence.len);
        if let Some(&last) = sequence.blocks.get(len / BLOCK_TOKENS)
            && !len.is_multiple_of(BLOCK_TOKENS)
            && !self.blocks.make_private(last)
        {
            len -= len % BLOCK_TOKENS;
        }
        let n_kept = len.div_ceil(BLOCK_TOKENS);
        for id in sequence.blocks.drain(n_kept..).rev() {
            self.blocks.give_back(id);
        }
        sequence.len = len;
    }

    /// Makes the whole blocks of `committed` that are computed reusable by later sequences. `committed` is
    /// what the sequence holds, from its first token on; tokens beyond `sequence.len()` are ignored.
    pub fn publish(&mut self, sequence: &KvSequence, committed: &[TokenId]) {
        let computed = &committed[..committed.len().min(sequence.len)];
        let mut predecessor = Serial::ROOT;
        for (&tokens, &id) in computed.as_chunks::<BLOCK_TOKENS>().0.iter().zip(&sequence.blocks) {
            let link = Link { predecessor, tokens };
            // Where an equal chain is known already, that one goes on being found and this block stays private.
            predecessor = match self.blocks.find(&link) {
                Some((_, serial)) => serial,
                None => self.blocks.publish(id, link),
            };
        }
    }

    /// Ends a sequence. Its published blocks stay reusable until the space is needed.
    pub fn release(&mut self, sequence: KvSequence) {
        // Last block first, so that of one chain the tail is evicted before the head.
        for id in sequence.blocks.into_iter().rev() {
            self.blocks.give_back(id);
        }
    }
}

#[cfg(test)]
mod tests;

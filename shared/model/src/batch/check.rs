//! What a batch must be before anything is computed.

use specfleet_speculation::TokenId;

use super::{ModelDescription, Segment};

/// Why a forward pass was refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// A segment without tokens.
    #[error("segment {segment} has no tokens; a segment needs at least one")]
    EmptySegment {
        /// Index of the segment in the batch.
        segment: usize,
    },
    /// A token id that the vocabulary does not have.
    #[error("segment {segment}: token id {token} is not below the vocabulary size {vocab_size}")]
    TokenOutOfRange {
        /// Index of the segment in the batch.
        segment: usize,
        /// The id.
        token: TokenId,
        /// Ids must be below this.
        vocab_size: usize,
    },
    /// The sequence would become longer than the model's context.
    #[error("segment {segment}: {len} tokens exceed the context length {context_length}; shorten or end the sequence")]
    ContextExceeded {
        /// Index of the segment in the batch.
        segment: usize,
        /// Length that the sequence would have.
        len: usize,
        /// The model's limit.
        context_length: usize,
    },
    /// The caller did not reserve KV memory for the tokens.
    #[error("segment {segment}: {len} tokens need KV memory, {capacity} are reserved; call KvCache::reserve first")]
    NotReserved {
        /// Index of the segment in the batch.
        segment: usize,
        /// Length that the sequence would have.
        len: usize,
        /// Length that its blocks can hold.
        capacity: usize,
    },
    /// A sequence that was started on another model's cache.
    #[error("segment {segment} holds KV block {block}, but this model has {n_blocks}; it belongs to another model")]
    ForeignSequence {
        /// Index of the segment in the batch.
        segment: usize,
        /// The block number.
        block: u32,
        /// Blocks that there are.
        n_blocks: usize,
    },
    /// libtorch refused an operation: out of memory, or a fault of the device.
    #[error("libtorch failed: {0}")]
    Libtorch(#[from] tch::TchError),
}

/// Everything that must hold before a pass computes anything.
pub(crate) fn check_segments(
    segments: &[Segment<'_>],
    description: &ModelDescription,
    n_blocks: usize,
) -> Result<(), ForwardError> {
    for (segment, Segment { kv, tokens, .. }) in segments.iter().enumerate() {
        if tokens.is_empty() {
            return Err(ForwardError::EmptySegment { segment });
        }
        let vocab_size = description.vocab_size;
        if let Some(&token) = tokens.iter().find(|&&token| token as usize >= vocab_size) {
            return Err(ForwardError::TokenOutOfRange { segment, token, vocab_size });
        }
        let (len, context_length) = (kv.len() + tokens.len(), description.context_length);
        if len > context_length {
            return Err(ForwardError::ContextExceeded { segment, len, context_length });
        }
        if len > kv.capacity() {
            return Err(ForwardError::NotReserved { segment, len, capacity: kv.capacity() });
        }
        if let Some(&block) = kv.blocks().iter().find(|&&block| block as usize >= n_blocks) {
            return Err(ForwardError::ForeignSequence { segment, block, n_blocks });
        }
    }
    Ok(())
}

//! Which row of a batch is what.

use std::ops::Range;

use specfleet_speculation::TokenId;

use crate::batch::Segment;
use crate::kv_cache::BLOCK_TOKENS;

/// Where each row of a batch belongs. Made once for a pass.
#[derive(Debug, Default)]
pub(crate) struct RowPlan {
    /// Token of each row.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) sequences: Vec<SequenceRows>,
    /// Rows whose logits somebody wants, ascending.
    pub(crate) wanted: Vec<usize>,
}

/// The rows of one sequence.
#[derive(Debug)]
pub(crate) struct SequenceRows {
    pub(crate) rows: Range<usize>,
    /// Position of the first row.
    pub(crate) start: usize,
    /// Blocks from position 0 up to the last row's, no further.
    pub(crate) blocks: Vec<u32>,
}

impl RowPlan {
    /// The plan of checked segments.
    pub(crate) fn new(segments: &[Segment<'_>]) -> Self {
        let mut plan = Self::default();
        for segment in segments {
            plan.push(segment);
        }
        plan
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.tokens.len()
    }

    fn push(&mut self, segment: &Segment<'_>) {
        let (start, n_tokens, first_row) = (segment.kv.len(), segment.tokens.len(), self.n_rows());
        let rows = first_row..first_row + n_tokens;
        self.tokens.extend_from_slice(segment.tokens);
        self.wanted.extend(rows.clone().skip(n_tokens - segment.logits.n_rows(n_tokens)));
        let blocks = segment.kv.blocks()[..(start + n_tokens).div_ceil(BLOCK_TOKENS)].to_vec();
        self.sequences.push(SequenceRows { rows, start, blocks });
    }
}

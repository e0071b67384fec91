//! Where the rows of a batch stand: sequences, positions, blocks of the KV cache.
//!
//! The cache of a layer is a pool of blocks of 16 positions, in two arrays `[n_blocks][n_kv_heads]`
//! of tiles, one for keys and one for values. A tile holds `head_dim * 16` elements, arranged so
//! that attention reads it like packed weights: keys `[head_dim / PAIR][16][PAIR]`, one register
//! giving sixteen positions, values `[16 / PAIR][head_dim][PAIR]`, one giving sixteen dimensions.

use std::ops::Range;

use crate::packed::LANES;

/// Positions per block of the KV cache.
pub const BLOCK: usize = LANES;

/// Largest head dimension the kernels have room for.
pub(crate) const MAX_HEAD_DIM: usize = 256;

/// Heads of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads: a multiple of `n_kv_heads`.
    pub n_heads: usize,
    /// Key and value heads; each serves `n_heads / n_kv_heads` neighbouring query heads.
    pub n_kv_heads: usize,
    /// Width of a head: a multiple of 16, at most 256.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Width of a row of queries, and of attention's output.
    #[must_use]
    pub fn query_width(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Width of a row of queries, keys and values side by side.
    #[must_use]
    pub fn qkv_width(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    /// Elements of the keys, and again of the values, of one layer.
    #[must_use]
    pub fn cache_len(&self, n_blocks: usize) -> usize {
        n_blocks * self.n_kv_heads * self.tile_len()
    }

    /// Query heads per key head.
    pub(crate) fn group(&self) -> usize {
        self.n_heads / self.n_kv_heads
    }

    pub(crate) fn tile_len(&self) -> usize {
        self.head_dim * BLOCK
    }

    /// The elements of one tile in an array of tiles.
    pub(crate) fn tile(&self, block: u32, kv_head: usize) -> Range<usize> {
        let start = (block as usize * self.n_kv_heads + kv_head) * self.tile_len();
        start..start + self.tile_len()
    }

    pub(crate) fn check(&self) {
        let Self { n_heads, n_kv_heads, head_dim } = *self;
        assert!(
            n_kv_heads > 0 && n_heads > 0 && n_heads.is_multiple_of(n_kv_heads),
            "attention: {n_heads} query heads on {n_kv_heads} key heads"
        );
        assert!(
            head_dim > 0 && head_dim.is_multiple_of(LANES) && head_dim <= MAX_HEAD_DIM,
            "attention: head dimension {head_dim}, must be a multiple of 16 up to 256"
        );
    }
}

/// Consecutive rows of a batch that are consecutive positions of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The sequence's blocks in order: position `p` is in slot `p % 16` of `blocks[p / 16]`.
    pub blocks: &'a [u32],
    /// Position of the first row, which is the number of positions cached before it.
    pub start: usize,
    /// Rows, each one position further.
    pub n_rows: usize,
}

impl Segment<'_> {
    /// Positions of the rows.
    pub(crate) fn positions(&self) -> Range<usize> {
        self.start..self.start + self.n_rows
    }
}

/// Asserts that all blocks that the segments need exist, and returns the number of rows.
pub(crate) fn check_segments(segments: &[Segment<'_>], shape: &AttentionShape, cache_len: usize) -> usize {
    shape.check();
    let n_blocks = cache_len / shape.cache_len(1);
    for segment in segments {
        let needed = segment.positions().end.div_ceil(BLOCK);
        let n = segment.blocks.len();
        assert!(needed <= n, "attention: {needed} blocks needed, table of {n}");
        let largest = segment.blocks[..needed].iter().max();
        if let Some(&block) = largest {
            assert!((block as usize) < n_blocks, "attention: block {block} of {n_blocks}");
        }
    }
    segments.iter().map(|segment| segment.n_rows).sum()
}

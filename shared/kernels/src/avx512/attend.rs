//! A few queries over the tiles of one key head.
#![allow(unsafe_code)]

mod stretch;

use std::{arch::x86_64::*, ops::Range};

use super::vector::load;
use crate::{AttentionShape, BLOCK, Element, isa::Isa, packed::LANES, segment::MAX_HEAD_DIM};

/// Queries that pass over the tiles together.
pub(crate) const MAX_QUERIES: usize = 6;

/// Tiles whose scores are known before their weights are computed. Stretches begin at multiples
/// of this, for every query alike.
const STRETCH: usize = 16;

/// Positions of a stretch.
const STRETCH_LEN: usize = STRETCH * BLOCK;

/// The cache of one sequence and key head, with block numbers already checked.
pub(crate) struct Tiles<'a, E> {
    pub(crate) shape: AttentionShape,
    pub(crate) kv_head: usize,
    pub(crate) blocks: &'a [u32],
    pub(crate) keys: &'a [E],
    pub(crate) values: &'a [E],
}

/// Attention of `visible.len()` queries `[queries, head_dim]`, query `i` over the first
/// `visible[i]` positions (at least one), into `out`, of the same size.
pub(crate) fn attend<E: Element>(_isa: Isa, tiles: &Tiles<'_, E>, queries: &[E], visible: &[usize], out: &mut [E]) {
    let n_queries = visible.len();
    assert!((1..=MAX_QUERIES).contains(&n_queries));
    assert!(tiles.shape.head_dim <= MAX_HEAD_DIM);
    assert_eq!(queries.len(), n_queries * tiles.shape.head_dim);
    assert_eq!(out.len(), queries.len());
    // SAFETY: an `Isa` exists only where the instructions do.
    unsafe {
        match n_queries {
            1 => Attend::<E, 1>::run(tiles, queries, visible, out),
            2 => Attend::<E, 2>::run(tiles, queries, visible, out),
            3 => Attend::<E, 3>::run(tiles, queries, visible, out),
            4 => Attend::<E, 4>::run(tiles, queries, visible, out),
            5 => Attend::<E, 5>::run(tiles, queries, visible, out),
            _ => Attend::<E, 6>::run(tiles, queries, visible, out),
        }
    }
}

/// State of `N` queries between stretches.
struct Attend<E, const N: usize> {
    /// Of the current stretch.
    scores: [[f32; STRETCH_LEN]; N],
    /// Of the current stretch: exponentials, rounded.
    weights: [[E; STRETCH_LEN]; N],
    /// Largest score so far.
    largest: [f32; N],
    /// Sixteen partial sums of the weights so far, relative to `largest`.
    totals: [__m512; N],
    /// Weighted values so far, relative to `largest`.
    sums: [[f32; MAX_HEAD_DIM]; N],
}

impl<E: Element, const N: usize> Attend<E, N> {
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn run(tiles: &Tiles<'_, E>, queries: &[E], visible: &[usize], out: &mut [E]) {
        let mut state = Self {
            scores: [[0.0; STRETCH_LEN]; N],
            weights: [[E::default(); STRETCH_LEN]; N],
            largest: [f32::NEG_INFINITY; N],
            totals: [_mm512_setzero_ps(); N],
            sums: [[0.0; MAX_HEAD_DIM]; N],
        };
        let n_tiles = visible.iter().max().map_or(0, |n| n.div_ceil(BLOCK));
        for first in (0..n_tiles).step_by(STRETCH) {
            let stretch = first..n_tiles.min(first + STRETCH);
            state.score(tiles, queries, stretch.clone());
            for (query, visible) in visible.iter().enumerate() {
                let visible = visible.saturating_sub(first * BLOCK);
                state.weigh(query, visible, stretch.len(), tiles.shape.head_dim);
            }
            state.add_values(tiles, stretch);
        }
        state.finish(out);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn finish(&self, out: &mut [E]) {
        let head_dim = out.len() / N;
        for (query, out) in out.chunks_exact_mut(head_dim).enumerate() {
            let total = _mm512_set1_ps(_mm512_reduce_add_ps(self.totals[query]));
            for (index, out) in out.chunks_exact_mut(LANES).enumerate() {
                let mean = _mm512_div_ps(load(&self.sums[query], index * LANES), total);
                // A zero that has met masked positions may have either sign: make it positive.
                let mean = _mm512_add_ps(mean, _mm512_setzero_ps());
                // SAFETY: the instructions are enabled; sixteen elements.
                unsafe { E::store(out.as_mut_ptr(), __mmask16::MAX, mean) };
            }
        }
    }
}

impl<E: Element> Tiles<'_, E> {
    /// Elements of the sequence's tile number `tile`.
    fn range(&self, tile: usize) -> Range<usize> {
        self.shape.tile(self.blocks[tile], self.kv_head)
    }

    /// Address of a tile that will be read later, if there is one; only to be asked for ahead.
    fn later(&self, array: &[E], tile: usize) -> *const E {
        let block = self.blocks.get(tile).or(self.blocks.last());
        let start = block.map_or(0, |block| self.shape.tile(*block, self.kv_head).start);
        array.as_ptr().wrapping_add(start)
    }
}

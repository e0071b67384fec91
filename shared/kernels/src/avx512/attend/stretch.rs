//! One stretch of positions: scores, weights, weighted values.
#![allow(unsafe_code)]

use std::{arch::x86_64::*, ops::Range};

use super::{Attend, STRETCH_LEN, Tiles};
use crate::{
    BLOCK, Element,
    avx512::{
        elements::multiply_lines,
        vector::{exp, first_lanes, load},
    },
    packed::LANES,
};

/// Tiles of keys, and of values, asked for before their turn: tiles lie scattered, so the
/// processor cannot guess them.
const KEYS_AHEAD: usize = 4;
const VALUES_AHEAD: usize = 2;

impl<E: Element, const N: usize> Attend<E, N> {
    /// Scores of all positions of the tiles, visible or not.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn score(&mut self, tiles: &Tiles<'_, E>, queries: &[E], stretch: Range<usize>) {
        let mut tile = stretch.start;
        while tile < stretch.end {
            let slot = (tile - stretch.start) * BLOCK;
            if stretch.end - tile >= 4 {
                self.score_tiles::<4>(tiles, queries, tile, slot);
                tile += 4;
            } else {
                self.score_tiles::<1>(tiles, queries, tile, slot);
                tile += 1;
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn score_tiles<const TILES: usize>(&mut self, tiles: &Tiles<'_, E>, queries: &[E], tile: usize, slot: usize) {
        let head_dim = tiles.shape.head_dim;
        let mut lines = [tiles.keys.as_ptr(); TILES];
        let mut ahead = lines;
        for index in 0..TILES {
            lines[index] = tiles.keys[tiles.range(tile + index)].as_ptr();
            ahead[index] = tiles.later(tiles.keys, tile + index + KEYS_AHEAD);
        }
        let mut sums = [[_mm512_setzero_ps(); TILES]; N];
        let step = LANES * E::PAIR;
        let n_pairs = head_dim / E::PAIR;
        // SAFETY: a tile is `n_pairs` lines; `queries` is `[N, head_dim]` (asserted in `attend`).
        unsafe {
            multiply_lines::<_, _, _, false>(&mut sums, lines, ahead, step, queries.as_ptr(), head_dim, n_pairs);
        }
        let scale = _mm512_set1_ps(1.0 / (head_dim as f32).sqrt());
        for (scores, sums) in self.scores.iter_mut().zip(sums) {
            for (index, sum) in sums.into_iter().enumerate() {
                let out = &mut scores[slot + index * LANES..][..LANES];
                // SAFETY: sixteen elements.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), _mm512_mul_ps(sum, scale)) };
            }
        }
    }

    /// Turns the scores of one query into weights, zero from `visible` on.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn weigh(&mut self, query: usize, visible: usize, n_tiles: usize, head_dim: usize) {
        let visible = visible.min(n_tiles * BLOCK);
        let scores = &self.scores[query][..visible];
        let weights = &mut self.weights[query];
        weights[visible..n_tiles * BLOCK].fill(E::default());
        if visible == 0 {
            return;
        }
        let mut largest = _mm512_set1_ps(self.largest[query]);
        for start in (0..visible).step_by(LANES) {
            let lanes = first_lanes(visible - start);
            largest = _mm512_mask_max_ps(largest, lanes, largest, load(scores, start));
        }
        let largest = _mm512_reduce_max_ps(largest);
        let mut total = self.totals[query];
        if largest != self.largest[query] {
            let shrink = exp(_mm512_set1_ps(self.largest[query] - largest));
            total = _mm512_mul_ps(total, shrink);
            for sums in self.sums[query][..head_dim].chunks_exact_mut(LANES) {
                // SAFETY: sixteen elements.
                unsafe {
                    let shrunk = _mm512_mul_ps(_mm512_loadu_ps(sums.as_ptr()), shrink);
                    _mm512_storeu_ps(sums.as_mut_ptr(), shrunk);
                }
            }
            self.largest[query] = largest;
        }
        for start in (0..visible).step_by(LANES) {
            let lanes = first_lanes(visible - start);
            let score = _mm512_sub_ps(load(scores, start), _mm512_set1_ps(largest));
            // SAFETY: the instructions are enabled; the mask names elements below `visible`.
            unsafe {
                let weight = E::round(exp(score));
                total = _mm512_mask_add_ps(total, lanes, total, weight);
                E::store(weights[start..].as_mut_ptr(), lanes, weight);
            }
        }
        self.totals[query] = total;
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn add_values(&mut self, tiles: &Tiles<'_, E>, stretch: Range<usize>) {
        let head_dim = tiles.shape.head_dim;
        let mut first = 0;
        while first < head_dim {
            if head_dim - first >= 4 * LANES {
                self.add_dimensions::<4>(tiles, stretch.clone(), first);
                first += 4 * LANES;
            } else {
                self.add_dimensions::<1>(tiles, stretch.clone(), first);
                first += LANES;
            }
        }
    }

    /// Weighted values of the dimensions from `first` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn add_dimensions<const BLOCKS: usize>(&mut self, tiles: &Tiles<'_, E>, stretch: Range<usize>, first: usize) {
        let mut sums = [[_mm512_setzero_ps(); BLOCKS]; N];
        for (sums, from) in sums.iter_mut().zip(&self.sums) {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = load(from, first + index * LANES);
            }
        }
        let line_step = tiles.shape.head_dim * E::PAIR;
        for (index, tile) in stretch.enumerate() {
            let values = &tiles.values[tiles.range(tile)];
            let mut lines = [values.as_ptr(); BLOCKS];
            let mut ahead = [tiles.later(tiles.values, tile + VALUES_AHEAD); BLOCKS];
            for block in 0..BLOCKS {
                let start = (first + block * LANES) * E::PAIR;
                lines[block] = values[start..].as_ptr();
                ahead[block] = ahead[block].wrapping_add(start);
            }
            let (weights, n_pairs) = (self.weights.as_ptr().cast::<E>(), BLOCK / E::PAIR);
            // SAFETY: a tile has a line of each sixteen dimensions for each pair of positions;
            // the weights are `[N, STRETCH_LEN]`.
            unsafe {
                let weights = weights.add(index * BLOCK);
                multiply_lines::<_, _, _, false>(&mut sums, lines, ahead, line_step, weights, STRETCH_LEN, n_pairs);
            }
        }
        for (to, sums) in self.sums.iter_mut().zip(sums) {
            for (index, sum) in sums.into_iter().enumerate() {
                let out = &mut to[first + index * LANES..][..LANES];
                // SAFETY: sixteen elements.
                unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
            }
        }
    }
}

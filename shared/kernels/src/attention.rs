//! Causal attention over the paged KV cache, with grouped query heads.
//!
//! The cache is read once for all who look at the same keys: the query heads of a key head in all
//! rows of a segment form one list, cut into groups that fit the registers. Work is shared by
//! (segment, key head, group).
//!
//! Softmax goes online over stretches of positions that begin at fixed places, in f32; its weights
//! are rounded to the element type for the product with the values, and divided by the sum of the
//! rounded ones, so that they sum to one. What lies behind a row's own position enters with weight
//! zero, so a row's bits do not depend on the rows it is grouped with.
#![allow(unsafe_code)]

use crate::{
    AttentionShape, Element, Segment, WorkerPool,
    avx512::{self, MAX_QUERIES, Tiles},
    disjoint::Disjoint,
    segment::{MAX_HEAD_DIM, check_segments},
    split::balanced,
};

/// `softmax(q · k / sqrt(head_dim)) · v` for each row and head, over the positions up to the
/// row's own: `queries` and `out` are `[rows, query_width]`, `keys` and `values` a layer's arrays
/// of tiles, in which the rows' own positions are already stored.
///
/// # Panics
/// When a length is wrong or a block is missing.
pub fn attention<E: Element>(
    pool: &WorkerPool,
    shape: AttentionShape,
    segments: &[Segment<'_>],
    queries: &[E],
    keys: &[E],
    values: &[E],
    out: &mut [E],
) {
    let n_rows = check_segments(segments, &shape, keys.len());
    assert_eq!(values.len(), keys.len(), "attention: keys and values differ");
    assert_eq!(queries.len(), n_rows * shape.query_width(), "attention: queries");
    assert_eq!(out.len(), queries.len(), "attention: output length");
    let work = plan(shape, segments);
    let out = Disjoint::new(out);
    pool.run(work.len(), |chunk| {
        let piece = &work[chunk];
        let segment = &segments[piece.segment];
        let tiles = Tiles { shape, kv_head: piece.kv_head, blocks: segment.blocks, keys, values };
        let width = shape.head_dim;
        let mut group = [E::default(); MAX_QUERIES * MAX_HEAD_DIM];
        let mut result = [E::default(); MAX_QUERIES * MAX_HEAD_DIM];
        let mut visible = [0; MAX_QUERIES];
        for index in 0..piece.n_queries {
            let (row, at) = piece.query(shape, index);
            group[index * width..][..width].copy_from_slice(&queries[at..at + width]);
            visible[index] = segment.start + row + 1;
        }
        let result = &mut result[..piece.n_queries * width];
        let group = &group[..piece.n_queries * width];
        avx512::attend(pool.isa(), &tiles, group, &visible[..piece.n_queries], result);
        for (index, result) in result.chunks_exact(width).enumerate() {
            let (_, at) = piece.query(shape, index);
            // SAFETY: each (row, head) belongs to one piece.
            unsafe { out.part(at..at + width) }.copy_from_slice(result);
        }
    });
}

/// Queries that one worker takes together: part of the list of all (row, query head) of a segment
/// and key head, heads running fastest.
struct Piece {
    segment: usize,
    /// Row of the batch that the segment begins with.
    first_row: usize,
    kv_head: usize,
    first_query: usize,
    n_queries: usize,
}

impl Piece {
    /// Row within the segment, and start within the queries, of query `index` of the piece.
    fn query(&self, shape: AttentionShape, index: usize) -> (usize, usize) {
        let (row, head) = ((self.first_query + index) / shape.group(), (self.first_query + index) % shape.group());
        let head = self.kv_head * shape.group() + head;
        let start = (self.first_row + row) * shape.query_width() + head * shape.head_dim;
        (row, start)
    }
}

fn plan(shape: AttentionShape, segments: &[Segment<'_>]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut first_row = 0;
    for (index, segment) in segments.iter().enumerate() {
        let n_queries = segment.n_rows * shape.group();
        for kv_head in 0..shape.n_kv_heads {
            for group in balanced(n_queries, MAX_QUERIES) {
                pieces.push(Piece {
                    segment: index,
                    first_row,
                    kv_head,
                    first_query: group.start,
                    n_queries: group.len(),
                });
            }
        }
        first_row += segment.n_rows;
    }
    pieces
}

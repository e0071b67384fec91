//! One key head at a time: rotation and the way into the tiles.
#![allow(unsafe_code)]

use super::Rotation;
use crate::{BLOCK, Element, Segment, WorkerPool, avx512, disjoint::Disjoint, packed::LANES, segment::MAX_HEAD_DIM};

/// Operands of [`rope_and_cache`](super::rope_and_cache), with lengths already checked.
pub(super) struct Heads<'a, E> {
    pub(super) pool: &'a WorkerPool,
    pub(super) rotation: Rotation<'a>,
    pub(super) segments: &'a [Segment<'a>],
    pub(super) qkv: &'a [f32],
    pub(super) queries: Disjoint<'a, E>,
    pub(super) keys: Disjoint<'a, E>,
    pub(super) values: Disjoint<'a, E>,
}

impl<E: Element> Heads<'_, E> {
    /// One key head and the query heads it serves, in all rows.
    ///
    /// # Safety
    /// No other call with this head at the same time.
    pub(super) unsafe fn rotate_and_store(&self, kv_head: usize) {
        let shape = self.rotation.shape;
        let mut rows = self.qkv.chunks_exact(shape.qkv_width()).enumerate();
        for segment in self.segments {
            for position in segment.positions() {
                let (row, qkv) = rows.next().expect("lengths are asserted");
                for head in kv_head * shape.group()..(kv_head + 1) * shape.group() {
                    let start = row * shape.query_width() + head * shape.head_dim;
                    // SAFETY: only this call has the query heads of this key head.
                    let out = unsafe { self.queries.part(start..start + shape.head_dim) };
                    self.rotate_query(qkv, head, position, out);
                }
                let tile = shape.tile(segment.blocks[position / BLOCK], kv_head);
                // SAFETY: only this call has the tiles of this key head.
                let (keys, values) = unsafe { (self.keys.part(tile.clone()), self.values.part(tile)) };
                if position % BLOCK == 0 {
                    keys.fill(E::default());
                    values.fill(E::default());
                }
                self.store_key(qkv, kv_head, position, keys);
                self.store_value(qkv, kv_head, position, values);
            }
        }
    }

    fn rotate_query(&self, qkv: &[f32], head: usize, position: usize, out: &mut [E]) {
        let weight = self.rotation.qk_norm.map(|norm| norm.query.as_slice());
        let mut rotated = [0.0; MAX_HEAD_DIM];
        let rotated = self.rotate(qkv, head, position, weight, &mut rotated);
        avx512::round(self.pool.isa(), rotated, out);
    }

    /// Tile layout `[head_dim / PAIR][16][PAIR]`.
    fn store_key(&self, qkv: &[f32], kv_head: usize, position: usize, tile: &mut [E]) {
        let head = self.rotation.shape.n_heads + kv_head;
        let weight = self.rotation.qk_norm.map(|norm| norm.key.as_slice());
        let mut rotated = [0.0; MAX_HEAD_DIM];
        let rotated = self.rotate(qkv, head, position, weight, &mut rotated);
        let mut key = [E::default(); MAX_HEAD_DIM];
        let key = &mut key[..rotated.len()];
        avx512::round(self.pool.isa(), rotated, key);
        let slot = position % BLOCK * E::PAIR;
        let lines = tile.chunks_exact_mut(LANES * E::PAIR);
        for (line, pair) in lines.zip(key.chunks_exact(E::PAIR)) {
            line[slot..slot + E::PAIR].copy_from_slice(pair);
        }
    }

    /// Tile layout `[16 / PAIR][head_dim][PAIR]`.
    fn store_value(&self, qkv: &[f32], kv_head: usize, position: usize, tile: &mut [E]) {
        let shape = self.rotation.shape;
        let head = head_of(qkv, shape.n_heads + shape.n_kv_heads + kv_head, shape.head_dim);
        let mut value = [E::default(); MAX_HEAD_DIM];
        let value = &mut value[..shape.head_dim];
        avx512::round(self.pool.isa(), head, value);
        let (pair, within) = (position % BLOCK / E::PAIR, position % E::PAIR);
        let line = &mut tile[pair * shape.head_dim * E::PAIR..][..shape.head_dim * E::PAIR];
        for (slots, value) in line.chunks_exact_mut(E::PAIR).zip(value) {
            slots[within] = *value;
        }
    }

    /// Norm and rotation of one head, in f32.
    fn rotate<'b>(
        &self,
        qkv: &[f32],
        head: usize,
        position: usize,
        weight: Option<&[f32]>,
        out: &'b mut [f32; MAX_HEAD_DIM],
    ) -> &'b [f32] {
        let head_dim = self.rotation.shape.head_dim;
        let out = &mut out[..head_dim];
        let head = head_of(qkv, head, head_dim);
        match (weight, self.rotation.qk_norm) {
            (Some(weight), Some(norm)) => {
                avx512::rms_norm(self.pool.isa(), head, weight, norm.eps, out);
            }
            _ => out.copy_from_slice(head),
        }
        let (cos, sin) = self.rotation.rope.row(position);
        let (first, second) = out.split_at_mut(head_dim / 2);
        for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
        out
    }
}

fn head_of(row: &[f32], head: usize, head_dim: usize) -> &[f32] {
    &row[head * head_dim..(head + 1) * head_dim]
}

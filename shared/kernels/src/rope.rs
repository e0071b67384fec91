//! From the product's queries, keys and values to rotated queries and the KV cache.
//!
//! Rotary position embedding in the rotate-half form (Su et al. 2021, arXiv:2104.09864): dimension
//! `i` pairs with `i + head_dim / 2`. Models like Qwen3 normalise each query and key head first.
//!
//! When the first slot of a block is written its tiles are zeroed whole. What an earlier owner of
//! the block left there, a NaN perhaps, then never meets attention's zero weights.
#![allow(unsafe_code)]

mod heads;

use crate::{AttentionShape, Element, Segment, WorkerPool, disjoint::Disjoint, segment::check_segments};
use heads::Heads;

/// Fewer rows than this are done by the caller alone.
const SHARED_ROWS: usize = 16;

/// Cosines and sines of the rotation angles.
#[derive(Debug)]
pub struct RopeTables {
    half_dim: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTables {
    /// Tables `[positions, head_dim / 2]`.
    ///
    /// # Panics
    /// When the tables differ in length or are not whole rows.
    #[must_use]
    pub fn new(head_dim: usize, cos: Vec<f32>, sin: Vec<f32>) -> Self {
        let half_dim = head_dim / 2;
        assert!(half_dim > 0, "rope: head dimension {head_dim}");
        assert_eq!(cos.len(), sin.len(), "rope: tables of different length");
        assert!(cos.len().is_multiple_of(half_dim), "rope: {} angles, rows of {half_dim}", cos.len());
        Self { half_dim, cos, sin }
    }

    /// Positions the tables reach to.
    #[must_use]
    pub fn n_positions(&self) -> usize {
        self.cos.len() / self.half_dim
    }

    fn row(&self, position: usize) -> (&[f32], &[f32]) {
        let row = position * self.half_dim..(position + 1) * self.half_dim;
        (&self.cos[row.clone()], &self.sin[row])
    }
}

/// Root-mean-square norms of each query head and each key head, before the rotation.
#[derive(Debug)]
pub struct QkNorm {
    /// Weight of the query heads, `[head_dim]`.
    pub query: Vec<f32>,
    /// Weight of the key heads, `[head_dim]`.
    pub key: Vec<f32>,
    /// Added to the mean square.
    pub eps: f32,
}

/// What happens to a layer's queries and keys.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'a> {
    /// The layer's heads.
    pub shape: AttentionShape,
    /// The rotation angles.
    pub rope: &'a RopeTables,
    /// Norms before it, where the model has them.
    pub qk_norm: Option<&'a QkNorm>,
}

/// Rotates queries and keys, and stores keys and values at their rows' positions.
///
/// `qkv` is `[rows, qkv_width]`: query heads, key heads, value heads. Rows follow the segments in
/// order. `queries` is `[rows, query_width]`; `keys` and `values` are a layer's arrays of tiles.
///
/// # Panics
/// When a length is wrong, a position is beyond the tables, or a block is missing.
pub fn rope_and_cache<E: Element>(
    pool: &WorkerPool,
    rotation: Rotation<'_>,
    segments: &[Segment<'_>],
    qkv: &[f32],
    queries: &mut [E],
    keys: &mut [E],
    values: &mut [E],
) {
    let shape = rotation.shape;
    let n_rows = check_segments(segments, &shape, keys.len());
    rotation.check(segments);
    assert_eq!(qkv.len(), n_rows * shape.qkv_width(), "rope: qkv length");
    assert_eq!(queries.len(), n_rows * shape.query_width(), "rope: queries");
    assert_eq!(values.len(), keys.len(), "rope: keys and values differ");
    let heads = Heads {
        pool,
        rotation,
        segments,
        qkv,
        queries: Disjoint::new(queries),
        keys: Disjoint::new(keys),
        values: Disjoint::new(values),
    };
    // SAFETY: each key head is done once; its tiles and its group of query heads are its own.
    let one_head = |kv_head| unsafe { heads.rotate_and_store(kv_head) };
    if n_rows < SHARED_ROWS {
        (0..shape.n_kv_heads).for_each(one_head);
    } else {
        pool.run(shape.n_kv_heads, one_head);
    }
}

impl Rotation<'_> {
    fn check(&self, segments: &[Segment<'_>]) {
        let head_dim = self.shape.head_dim;
        assert_eq!(self.rope.half_dim, head_dim / 2, "rope: width of the tables");
        for segment in segments {
            let (end, n) = (segment.positions().end, self.rope.n_positions());
            assert!(end <= n, "rope: {end} positions, tables of {n}");
        }
        if let Some(norm) = self.qk_norm {
            assert_eq!(norm.query.len(), head_dim, "rope: query norm");
            assert_eq!(norm.key.len(), head_dim, "rope: key norm");
        }
    }
}

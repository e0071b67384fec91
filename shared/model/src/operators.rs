//! The handful of operators that every family's forward pass is written in.
//!
//! There are two implementations. [`libtorch`] runs on every device and is the reference; [`fused`] runs on
//! CPUs with AVX-512 BF16 and VNNI, on the same tensors' memory, and is what makes a step on a CPU as fast as memory
//! can deliver the weights: a decode step of a small model is some two hundred short operators, and libtorch
//! spends more time in getting to them than in computing them. Tests hold the two against each other.
//!
//! Both agree on the layout of everything that outlives a step:
//!
//! - Keys of one layer are `[n_blocks, n_kv_heads, head_dim / pair, 16, pair]`, values
//!   `[n_blocks, n_kv_heads, 16 / pair, head_dim, pair]`, where `pair` is 2 for bf16 and 1 for f32: the order
//!   in which the dot-product instruction wants them.
//! - A block is zeroed when its first slot is written, so that what an earlier owner left there (it may be
//!   NaN) is never multiplied, not even by zero.
//!
//! Element types: activations that feed a matrix product have the model's element type; products, and the
//! residual stream that they add up in, are f32. Matrices have the element type too, or a smaller one of which
//! the operators know (8-bit integers).

use tch::{Device, Kind, Tensor};

use crate::batch::ForwardError;
use crate::checkpoint::Values;
use crate::kv_cache::BLOCK_TOKENS;
use crate::rope::RotaryTables;

pub(crate) mod fused;
pub(crate) mod libtorch;
mod plan;

pub(crate) use plan::{RowPlan, SequenceRows};

pub(crate) type Result<T, E = ForwardError> = std::result::Result<T, E>;

/// What the operators need to know about the model and the device.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Element type of activations, KV memory and weights as they are loaded: `BFloat16` or `Float`.
    pub(crate) kind: Kind,
    pub(crate) device: Device,
    pub(crate) n_heads: usize,
    pub(crate) n_kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) norm_eps: f32,
    pub(crate) rotary: RotaryTables,
}

impl Geometry {
    /// Width of a row of queries, or of attended values: all heads side by side.
    pub(crate) fn query_width(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Width of a row of queries, keys and values side by side.
    pub(crate) fn qkv_width(&self) -> usize {
        (self.n_heads + 2 * self.n_kv_heads) * self.head_dim
    }

    /// Neighbours that the dot-product instruction takes together.
    fn pair(&self) -> usize {
        if self.kind == Kind::BFloat16 { 2 } else { 1 }
    }
}

/// Keys and values of one layer, all blocks. The module docs have the layout.
#[derive(Debug)]
pub(crate) struct LayerCache {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
}

impl LayerCache {
    /// Uninitialised: pages are touched when a block is first used.
    pub(crate) fn new(geometry: &Geometry, n_blocks: usize) -> Result<Self, tch::TchError> {
        let pair = geometry.pair();
        let empty = |shape: [usize; 5]| Tensor::f_empty(shape.map(|n| n as i64), (geometry.kind, geometry.device));
        let (heads, dim) = (geometry.n_kv_heads, geometry.head_dim);
        Ok(Self {
            keys: empty([n_blocks, heads, dim / pair, BLOCK_TOKENS, pair])?,
            values: empty([n_blocks, heads, BLOCK_TOKENS / pair, dim, pair])?,
        })
    }
}

/// An implementation of the operators, and the forms in which it wants what stays the same from step to step.
pub(crate) trait Operators: Send {
    /// A matrix `[n_out, n_in]` with an optional bias.
    type Matrix: Send;
    /// An embedding table `[vocab, hidden]` of which no product is computed.
    type Table: Send;
    /// Norms of the query and key heads.
    type HeadNorms: Send;
    /// One pass over a batch.
    type Step<'a>: Step<Matrix = Self::Matrix, Table = Self::Table, HeadNorms = Self::HeadNorms>
    where
        Self: 'a;

    /// What it was made for.
    fn geometry(&self) -> &Geometry;

    /// For the description: `fused` or `libtorch`.
    fn name(&self) -> &'static str;

    /// The matrix made of `parts` stacked in order, each row-major `[n_out_of_part, n_in]`.
    fn matrix(&self, parts: &[Values<'_>], n_in: usize, bias: Option<Vec<f32>>) -> Result<Self::Matrix, tch::TchError>;

    /// Bytes that a product with few rows reads.
    fn matrix_bytes(&self, matrix: &Self::Matrix) -> usize;

    /// The table with these rows.
    fn table(&self, rows: &Values<'_>, width: usize) -> Result<Self::Table, tch::TchError>;

    /// Norms of `[head_dim]` for each query head and each key head.
    fn head_norms(&self, query: Vec<f32>, key: Vec<f32>) -> Result<Self::HeadNorms, tch::TchError>;

    /// Begins a pass over the rows of `plan`.
    fn begin<'a>(&'a self, plan: &'a RowPlan) -> Result<Self::Step<'a>>;
}

/// The operators of one pass. Each fills a whole output tensor of the stated shape; it may write to the memory
/// that is there or put another tensor in its place.
pub(crate) trait Step {
    /// See [`Operators::Matrix`].
    type Matrix;
    /// See [`Operators::Table`].
    type Table;
    /// See [`Operators::HeadNorms`].
    type HeadNorms;

    /// Rows of the embedding table `[vocab, hidden]` for the plan's tokens: `out` f32 `[rows, hidden]`.
    fn embedding(&self, table: &Self::Table, out: &mut Tensor) -> Result<()>;

    /// The same out of a head `[vocab, hidden]` that is the embedding as well.
    fn tied_embedding(&self, head: &Self::Matrix, out: &mut Tensor) -> Result<()>;

    /// `x / rms(x) * weight`: `x` f32 `[rows, hidden]`, `weight` f32 `[hidden]`, `out` model dtype.
    /// (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.)
    fn rms_norm(&self, x: &Tensor, weight: &Tensor, out: &mut Tensor) -> Result<()>;

    /// `x @ matrix^T + bias`: `x` model dtype `[rows, n_in]`, `out` f32 `[rows, n_out]`.
    fn linear(&self, x: &Tensor, matrix: &Self::Matrix, out: &mut Tensor) -> Result<()>;

    /// The same, added to `residual` f32 `[rows, n_out]`.
    fn linear_add(&self, x: &Tensor, matrix: &Self::Matrix, residual: &mut Tensor) -> Result<()>;

    /// The same, into memory of the host: `logits` `[rows, n_out]`.
    fn head(&self, x: &Tensor, matrix: &Self::Matrix, logits: &mut [f32]) -> Result<()>;

    /// Norms (if any) and rotates queries and keys, and writes keys and values to the cache.
    /// `qkv` f32 `[rows, (n_heads + 2 n_kv_heads) * head_dim]`, `queries` model dtype
    /// `[rows, n_heads * head_dim]`. (Su et al., "RoFormer", 2021; one half rotated against the other.)
    fn rope_and_cache(
        &self,
        qkv: &Tensor,
        norms: Option<&Self::HeadNorms>,
        cache: &mut LayerCache,
        queries: &mut Tensor,
    ) -> Result<()>;

    /// Causal attention of each row over its own sequence, several query heads to one key-value head.
    /// `queries` and `out` model dtype `[rows, n_heads * head_dim]`. (Ainslie et al., "GQA", 2023.)
    fn attention(&self, queries: &Tensor, cache: &LayerCache, out: &mut Tensor) -> Result<()>;

    /// `silu(gate) * up`: `gate_up` f32 `[rows, 2 * ffn]`, `out` model dtype `[rows, ffn]`.
    /// (Shazeer, "GLU Variants Improve Transformer", 2020.)
    fn swiglu(&self, gate_up: &Tensor, out: &mut Tensor) -> Result<()>;
}

#[cfg(test)]
mod tests;

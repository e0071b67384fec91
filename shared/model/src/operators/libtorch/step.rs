//! One pass in libtorch's terms.

use tch::{Kind, Tensor};

use super::{HeadNorms, Libtorch, Matrix};
use crate::kv_cache::BLOCK_TOKENS;
use crate::operators::{Geometry, LayerCache, Result, RowPlan, SequenceRows, Step};

/// CPU kernels add up in another order where a product, or the part of it that one thread gets, has fewer rows than
/// this: a row alone would have other bits than the same row among others. So the number of rows is always a multiple
/// of it, if need be with rows of zeros.
const ROW_GROUP: i64 = 4;

/// A pass, with the plan's numbers as tensors on the device.
#[derive(Debug)]
pub(crate) struct LibtorchStep<'a> {
    geometry: &'a Geometry,
    tokens: Tensor,
    /// Rotary factors of each row, `[rows, 1, head_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
    blocks: Tensor,
    slots: Tensor,
    /// Blocks whose first slot this pass writes.
    fresh_blocks: Option<Tensor>,
    sequences: Vec<SequenceStep>,
}

#[derive(Debug)]
struct SequenceStep {
    first_row: i64,
    n_rows: i64,
    /// The same as a multiple of [`ROW_GROUP`].
    n_padded: i64,
    blocks: Tensor,
    /// True where a row must not look: `[1, n_padded, 1, n_blocks * BLOCK_TOKENS]`.
    hidden: Tensor,
}

impl<'a> LibtorchStep<'a> {
    pub(super) fn new(operators: &'a Libtorch, plan: &RowPlan) -> Result<Self> {
        let geometry = &operators.geometry;
        let (mut positions, mut blocks, mut slots, mut fresh) = (vec![], vec![], vec![], vec![]);
        for sequence in &plan.sequences {
            for position in sequence.start..sequence.start + sequence.rows.len() {
                let (block, slot) = (sequence.blocks[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
                positions.push(position as u32);
                blocks.push(block);
                slots.push(slot as u32);
                fresh.extend((slot == 0).then_some(block));
            }
        }
        let positions = indices(&positions, geometry)?;
        let rotary = |table: &Tensor| table.f_index_select(0, &positions)?.f_unsqueeze(1);
        Ok(Self {
            geometry,
            tokens: indices(&plan.tokens, geometry)?,
            cos: rotary(&operators.cos)?,
            sin: rotary(&operators.sin)?,
            blocks: indices(&blocks, geometry)?,
            slots: indices(&slots, geometry)?,
            fresh_blocks: (!fresh.is_empty()).then(|| indices(&fresh, geometry)).transpose()?,
            sequences: plan.sequences.iter().map(|rows| SequenceStep::new(rows, geometry)).collect::<Result<_>>()?,
        })
    }

    /// `x @ matrix^T + bias`, f32.
    fn product(&self, x: &Tensor, matrix: &Matrix) -> Result<Tensor> {
        let n_rows = x.size()[0];
        let product = padded(x)?.f_linear(&matrix.weight, None::<&Tensor>)?; // [rows and zeros, n_out]
        let product = product.f_narrow(0, 0, n_rows)?.f_to_kind(Kind::Float)?;
        Ok(match &matrix.bias {
            Some(bias) => product.f_add(bias)?,
            None => product,
        })
    }

    fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let halves = x.f_chunk(2, -1)?; // [rows, heads, head_dim / 2] each
        let (first, second) = (&halves[0], &halves[1]);
        Ok(Tensor::f_cat(
            &[
                first.f_mul(&self.cos)?.f_sub(&second.f_mul(&self.sin)?)?,
                second.f_mul(&self.cos)?.f_add(&first.f_mul(&self.sin)?)?,
            ],
            -1,
        )?)
    }

    /// Writes keys and values, `[rows, n_kv_heads, head_dim]` in the model's dtype.
    fn write_cache(&self, keys: &Tensor, values: &Tensor, cache: &mut LayerCache) -> Result<()> {
        if let Some(fresh) = &self.fresh_blocks {
            let _ = cache.keys.f_index_fill_(0, fresh, 0.0)?;
            let _ = cache.values.f_index_fill_(0, fresh, 0.0)?;
        }
        let pair = self.geometry.pair() as i64;
        let paired_dims = keys.f_unflatten(-1, [-1, pair])?; // [rows, n_kv_heads, head_dim / pair, pair]
        let at = [Some(&self.blocks), None, None, Some(&self.slots)];
        let _ = cache.keys.f_index_put_(&at, &paired_dims, false)?;
        let (group, member) = (self.slots.f_floor_divide_scalar(pair)?, self.slots.f_remainder(pair)?);
        let at = [Some(&self.blocks), None, Some(&group), None, Some(&member)];
        let _ = cache.values.f_index_put_(&at, values, false)?;
        Ok(())
    }

    /// Attention of one sequence's rows: `queries` `[n_rows, n_heads * head_dim]`, result the same.
    fn attend(&self, sequence: &SequenceStep, queries: &Tensor, cache: &LayerCache) -> Result<Tensor> {
        let &Geometry { kind, n_heads, n_kv_heads, head_dim, .. } = self.geometry;
        let (kv_heads, group, dim) = (n_kv_heads as i64, (n_heads / n_kv_heads) as i64, head_dim as i64);
        let rows = sequence.n_padded;

        let keys = cache.keys.f_index_select(0, &sequence.blocks)?; // [blocks, kv_heads, dim / pair, 16, pair]
        let keys = keys.f_permute([1, 0, 3, 2, 4])?.f_reshape([kv_heads, -1, dim])?; // [kv_heads, keys, dim]
        let values = cache.values.f_index_select(0, &sequence.blocks)?; // [blocks, kv_heads, 16 / pair, dim, pair]
        let values = values.f_permute([1, 0, 2, 4, 3])?.f_reshape([kv_heads, -1, dim])?; // [kv_heads, keys, dim]

        // The query heads that share a key-value head become rows of one product.
        let queries = padded(queries)?.f_view([rows, kv_heads, group, dim])?.f_permute([1, 0, 2, 3])?;
        let queries = queries.f_reshape([kv_heads, rows * group, dim])?; // [kv_heads, rows * group, dim]
        let scores = queries.f_bmm(&keys.f_transpose(1, 2)?)?.f_to_kind(Kind::Float)?; // [kv_heads, rows * group, keys]
        let scores = scores.f_mul_scalar(1.0 / (head_dim as f64).sqrt())?;
        let scores = scores.f_view([kv_heads, rows, group, -1])?.f_masked_fill(&sequence.hidden, f64::NEG_INFINITY)?;
        let weights = scores.f_softmax(-1, Kind::Float)?.f_to_kind(kind)?.f_view([kv_heads, rows * group, -1])?;
        let mixed = self.mix(&weights, &values)?; // [kv_heads, rows * group, dim]
        let mixed = mixed.f_view([kv_heads, rows, group, dim])?.f_permute([1, 0, 2, 3])?;
        Ok(mixed.f_reshape([rows, kv_heads * group * dim])?.f_narrow(0, 0, sequence.n_rows)?)
    }

    /// `weights @ values`, a fixed number of keys at a time. Kernels split a long sum where its length tells them to,
    /// and the length is that of the last row in the pass: the same row would have other bits in a longer chunk.
    fn mix(&self, weights: &Tensor, values: &Tensor) -> Result<Tensor> {
        let n_keys = values.size()[1];
        let at_once = match self.geometry.kind {
            _ if self.geometry.device != tch::Device::Cpu => n_keys,
            // Sums of bf16 products are rounded to bf16, so they should be few.
            Kind::BFloat16 => 512,
            _ => 128,
        };
        let part = |first: i64| {
            let n = at_once.min(n_keys - first);
            weights.f_narrow(2, first, n)?.f_bmm(&values.f_narrow(1, first, n)?)?.f_to_kind(Kind::Float)
        };
        let mut mixed = part(0)?;
        for first in (at_once..n_keys).step_by(at_once as usize) {
            let _ = mixed.f_add_(&part(first)?)?;
        }
        Ok(mixed.f_to_kind(self.geometry.kind)?)
    }
}

impl Step for LibtorchStep<'_> {
    type Matrix = Matrix;
    type Table = Tensor;
    type HeadNorms = HeadNorms;

    fn embedding(&self, table: &Tensor, out: &mut Tensor) -> Result<()> {
        *out = table.f_index_select(0, &self.tokens)?.f_to_kind(Kind::Float)?;
        Ok(())
    }

    fn tied_embedding(&self, head: &Matrix, out: &mut Tensor) -> Result<()> {
        self.embedding(&head.weight, out)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, out: &mut Tensor) -> Result<()> {
        *out = normed(x, weight, self.geometry.norm_eps)?.f_to_kind(self.geometry.kind)?;
        Ok(())
    }

    fn linear(&self, x: &Tensor, matrix: &Matrix, out: &mut Tensor) -> Result<()> {
        *out = self.product(x, matrix)?;
        Ok(())
    }

    fn linear_add(&self, x: &Tensor, matrix: &Matrix, residual: &mut Tensor) -> Result<()> {
        let _ = residual.f_add_(&self.product(x, matrix)?)?;
        Ok(())
    }

    fn head(&self, x: &Tensor, matrix: &Matrix, logits: &mut [f32]) -> Result<()> {
        let product = self.product(x, matrix)?.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
        Ok(product.f_copy_data(logits, logits.len())?)
    }

    fn rope_and_cache(
        &self,
        qkv: &Tensor,
        norms: Option<&HeadNorms>,
        cache: &mut LayerCache,
        queries: &mut Tensor,
    ) -> Result<()> {
        let &Geometry { kind, n_heads, n_kv_heads, head_dim, norm_eps, .. } = self.geometry;
        let (heads, kv_heads) = (n_heads as i64, n_kv_heads as i64);
        let qkv = qkv.f_view([-1, heads + 2 * kv_heads, head_dim as i64])?;
        let mut query = qkv.f_narrow(1, 0, heads)?; // [rows, n_heads, head_dim]
        let mut key = qkv.f_narrow(1, heads, kv_heads)?; // [rows, n_kv_heads, head_dim]
        let value = qkv.f_narrow(1, heads + kv_heads, kv_heads)?; // [rows, n_kv_heads, head_dim]
        if let Some(norms) = norms {
            query = normed(&query, &norms.query, norm_eps)?;
            key = normed(&key, &norms.key, norm_eps)?;
        }
        let key = self.rotate(&key)?.f_to_kind(kind)?;
        self.write_cache(&key, &value.f_to_kind(kind)?, cache)?;
        *queries = self.rotate(&query)?.f_to_kind(kind)?.f_flatten(1, 2)?;
        Ok(())
    }

    fn attention(&self, queries: &Tensor, cache: &LayerCache, out: &mut Tensor) -> Result<()> {
        let mut parts = Vec::with_capacity(self.sequences.len());
        for sequence in &self.sequences {
            let rows = queries.f_narrow(0, sequence.first_row, sequence.n_rows)?;
            parts.push(self.attend(sequence, &rows, cache)?);
        }
        *out = Tensor::f_cat(&parts, 0)?;
        Ok(())
    }

    fn swiglu(&self, gate_up: &Tensor, out: &mut Tensor) -> Result<()> {
        let halves = gate_up.f_chunk(2, -1)?; // [rows, ffn] each
        *out = halves[0].f_silu()?.f_mul(&halves[1])?.f_to_kind(self.geometry.kind)?;
        Ok(())
    }
}

impl SequenceStep {
    fn new(sequence: &SequenceRows, geometry: &Geometry) -> Result<Self> {
        let options = (Kind::Int64, geometry.device);
        let (n_rows, n_keys) = (sequence.rows.len() as i64, (sequence.blocks.len() * BLOCK_TOKENS) as i64);
        let n_padded = n_rows + missing_rows(n_rows);
        let keys = Tensor::f_arange(n_keys, options)?; // [keys]
        let positions = Tensor::f_arange(n_padded, options)?.f_add_scalar(sequence.start as i64)?;
        let rows = positions.f_view([n_padded, 1, 1])?;
        Ok(Self {
            first_row: sequence.rows.start as i64,
            n_rows,
            n_padded,
            blocks: indices(&sequence.blocks, geometry)?,
            hidden: keys.f_gt_tensor(&rows)?.f_unsqueeze(0)?, // [1, n_padded, 1, keys]
        })
    }
}

/// `x` with as many rows of zeros behind it as make a multiple of [`ROW_GROUP`].
fn padded(x: &Tensor) -> Result<Tensor> {
    match missing_rows(x.size()[0]) {
        0 => Ok(x.shallow_clone()),
        missing => Ok(x.f_constant_pad_nd([0, 0, 0, missing])?),
    }
}

fn missing_rows(n_rows: i64) -> i64 {
    (-n_rows).rem_euclid(ROW_GROUP)
}

/// `x / rms(x) * weight` over the last dimension, f32.
fn normed(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let mean_square = x.f_square()?.f_mean_dim(-1i64, true, Kind::Float)?;
    Ok(x.f_mul(&mean_square.f_add_scalar(f64::from(eps))?.f_rsqrt()?)?.f_mul(weight)?)
}

fn indices(values: &[u32], geometry: &Geometry) -> Result<Tensor> {
    let wide: Vec<i64> = values.iter().map(|&value| i64::from(value)).collect();
    Ok(Tensor::f_from_slice(&wide)?.f_to_device(geometry.device)?)
}

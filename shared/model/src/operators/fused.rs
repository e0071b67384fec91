//! The operators as our own kernels on the tensors' memory, for CPUs with AVX-512 BF16 and VNNI.
//!
//! libtorch only allocates here. Matrices are packed once at load into the order in which the kernels read
//! them; activations and KV memory are the same tensors that the libtorch operators use. A row's result does
//! not depend on the other rows of a batch, bit for bit, which is the kernels' promise and the reason why
//! text does not change when speculation or other requests come and go.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::num::NonZeroUsize;

use half::bf16;
use specfleet_kernels as kernels;
use specfleet_kernels::pool::Awake;
use specfleet_kernels::{AttentionShape, Output, PackedLinear, QkNorm, RopeTables, Rotation, Weight, WorkerPool};
use tch::{Device, Kind, Tensor};

use super::{Geometry, LayerCache, Operators, Result, RowPlan, Step};
use crate::checkpoint::Values;

/// An element type of the kernels and its name in libtorch.
pub(crate) trait Element: kernels::Element {
    /// libtorch's name.
    const KIND: Kind;
    /// Weights in this type, converted only if they have another.
    fn of<'a>(values: &'a Values<'_>) -> Cow<'a, [Self]>;
}

impl Element for bf16 {
    const KIND: Kind = Kind::BFloat16;
    fn of<'a>(values: &'a Values<'_>) -> Cow<'a, [Self]> {
        values.to_bf16()
    }
}

impl Element for f32 {
    const KIND: Kind = Kind::Float;
    fn of<'a>(values: &'a Values<'_>) -> Cow<'a, [Self]> {
        values.to_f32()
    }
}

/// The fused implementation for one form of weights, whose inputs give the element type of all else.
pub(crate) struct Fused<W> {
    geometry: Geometry,
    shape: AttentionShape,
    rope: RopeTables,
    pool: WorkerPool,
    weight: std::marker::PhantomData<W>,
}

/// Why the fused operators cannot compute such a model here, if they cannot.
pub(crate) fn obstacle(geometry: &Geometry) -> Option<String> {
    let &Geometry { device, n_heads, n_kv_heads, head_dim, .. } = geometry;
    if device != Device::Cpu {
        return Some("they run on the CPU only".into());
    }
    if !kernels::supported() {
        return Some("this CPU lacks AVX-512 BF16 and VNNI".into());
    }
    if !head_dim.is_multiple_of(16) || head_dim > 256 {
        return Some(format!("heads must have a multiple of 16 and at most 256 dimensions, not {head_dim}"));
    }
    if n_kv_heads == 0 || !n_heads.is_multiple_of(n_kv_heads) {
        return Some(format!("{n_heads} query heads do not share {n_kv_heads} key-value heads evenly"));
    }
    None
}

impl<W: Weight<Input: Element>> Fused<W> {
    /// Starts the worker threads. libtorch itself is left with one thread: it has nothing to compute.
    pub(crate) fn new(geometry: Geometry, n_threads: NonZeroUsize) -> Result<Self, kernels::pool::Error> {
        tch::set_num_threads(1);
        let &Geometry { n_heads, n_kv_heads, head_dim, ref rotary, .. } = &geometry;
        Ok(Self {
            shape: AttentionShape { n_heads, n_kv_heads, head_dim },
            rope: RopeTables::new(head_dim, rotary.cos.clone(), rotary.sin.clone()),
            pool: WorkerPool::new(n_threads)?,
            geometry,
            weight: std::marker::PhantomData,
        })
    }
}

impl<W: Weight<Input: Element>> Operators for Fused<W> {
    type Matrix = PackedLinear<W>;
    type Table = PackedLinear<W::Input>;
    type HeadNorms = QkNorm;
    type Step<'a> = FusedStep<'a, W>;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self) -> &'static str {
        "fused"
    }

    fn matrix(&self, parts: &[Values<'_>], n_in: usize, bias: Option<Vec<f32>>) -> Result<Self::Matrix, tch::TchError> {
        let parts: Vec<Cow<'_, [W::Input]>> = parts.iter().map(W::Input::of).collect();
        let parts: Vec<&[W::Input]> = parts.iter().map(|part| &**part).collect();
        Ok(PackedLinear::pack(&self.pool, &parts, n_in, bias))
    }

    fn matrix_bytes(&self, matrix: &Self::Matrix) -> usize {
        matrix.n_bytes()
    }

    fn table(&self, rows: &Values<'_>, width: usize) -> Result<Self::Table, tch::TchError> {
        Ok(PackedLinear::pack(&self.pool, &[&W::Input::of(rows)], width, None))
    }

    fn head_norms(&self, query: Vec<f32>, key: Vec<f32>) -> Result<QkNorm, tch::TchError> {
        Ok(QkNorm { query, key, eps: self.geometry.norm_eps })
    }

    fn begin<'a>(&'a self, plan: &'a RowPlan) -> Result<FusedStep<'a, W>> {
        let segments = plan.sequences.iter().map(|sequence| kernels::Segment {
            blocks: &sequence.blocks,
            start: sequence.start,
            n_rows: sequence.rows.len(),
        });
        Ok(FusedStep { operators: self, plan, segments: segments.collect(), _awake: self.pool.awake() })
    }
}

/// A pass, during which the workers spin between operators instead of sleeping.
pub(crate) struct FusedStep<'a, W> {
    operators: &'a Fused<W>,
    plan: &'a RowPlan,
    segments: Vec<kernels::Segment<'a>>,
    _awake: Awake<'a>,
}

impl<W: Weight<Input: Element>> Step for FusedStep<'_, W> {
    type Matrix = PackedLinear<W>;
    type Table = PackedLinear<W::Input>;
    type HeadNorms = QkNorm;

    fn embedding(&self, table: &PackedLinear<W::Input>, out: &mut Tensor) -> Result<()> {
        kernels::embed(table, &self.plan.tokens, elements_mut(out)?);
        Ok(())
    }

    fn tied_embedding(&self, head: &PackedLinear<W>, out: &mut Tensor) -> Result<()> {
        kernels::embed(head, &self.plan.tokens, elements_mut(out)?);
        Ok(())
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, out: &mut Tensor) -> Result<()> {
        let eps = self.operators.geometry.norm_eps;
        kernels::rms_norm::<W::Input>(&self.operators.pool, elements(x)?, elements(weight)?, eps, elements_mut(out)?);
        Ok(())
    }

    fn linear(&self, x: &Tensor, matrix: &PackedLinear<W>, out: &mut Tensor) -> Result<()> {
        kernels::linear(&self.operators.pool, matrix, elements(x)?, elements_mut(out)?, Output::Replace);
        Ok(())
    }

    fn linear_add(&self, x: &Tensor, matrix: &PackedLinear<W>, residual: &mut Tensor) -> Result<()> {
        kernels::linear(&self.operators.pool, matrix, elements(x)?, elements_mut(residual)?, Output::Accumulate);
        Ok(())
    }

    fn head(&self, x: &Tensor, matrix: &PackedLinear<W>, logits: &mut [f32]) -> Result<()> {
        kernels::linear(&self.operators.pool, matrix, elements(x)?, logits, Output::Replace);
        Ok(())
    }

    fn rope_and_cache(
        &self,
        qkv: &Tensor,
        norms: Option<&QkNorm>,
        cache: &mut LayerCache,
        queries: &mut Tensor,
    ) -> Result<()> {
        let Fused { shape, rope, pool, .. } = self.operators;
        let rotation = Rotation { shape: *shape, rope, qk_norm: norms };
        let (keys, values) = (elements_mut::<W::Input>(&mut cache.keys)?, elements_mut(&mut cache.values)?);
        kernels::rope_and_cache(pool, rotation, &self.segments, elements(qkv)?, elements_mut(queries)?, keys, values);
        Ok(())
    }

    fn attention(&self, queries: &Tensor, cache: &LayerCache, out: &mut Tensor) -> Result<()> {
        let Fused { shape, pool, .. } = self.operators;
        let (keys, values) = (elements::<W::Input>(&cache.keys)?, elements(&cache.values)?);
        kernels::attention(pool, *shape, &self.segments, elements(queries)?, keys, values, elements_mut(out)?);
        Ok(())
    }

    fn swiglu(&self, gate_up: &Tensor, out: &mut Tensor) -> Result<()> {
        let out = elements_mut::<W::Input>(out)?;
        let gate_up = elements(gate_up)?;
        let n_ffn = gate_up.len() / 2 / self.plan.n_rows();
        kernels::swiglu(&self.operators.pool, gate_up, n_ffn, out);
        Ok(())
    }
}

/// The memory of a contiguous host tensor of elements `E`.
fn elements<E: Element>(tensor: &Tensor) -> Result<&[E]> {
    let (data, len) = memory::<E>(tensor)?;
    // SAFETY: `memory` has checked type, place and density; the tensor keeps its memory alive, and through a
    // shared reference nobody writes to it: the operators hand out `&mut [E]` only for `&mut Tensor`, and no
    // two tensors of a pass share memory.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// The same, to be written to.
fn elements_mut<E: Element>(tensor: &mut Tensor) -> Result<&mut [E]> {
    let (data, len) = memory::<E>(tensor)?;
    // SAFETY: as in `elements`; the exclusive borrow of the tensor is the exclusive borrow of its memory.
    // `E` is a plain number, of which every bit pattern is valid, and what a foreign allocator hands out has
    // some bit pattern.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, len) })
}

fn memory<E: Element>(tensor: &Tensor) -> Result<(*mut E, usize)> {
    let (kind, device) = (tensor.f_kind()?, tensor.device());
    if kind != E::KIND || device != Device::Cpu || !tensor.is_contiguous() {
        let wanted = E::KIND;
        let problem = format!("operator wants a dense {wanted:?} tensor of the host, got {kind:?} on {device:?}");
        return Err(tch::TchError::Kind(problem).into());
    }
    Ok((tensor.data_ptr().cast(), tensor.numel()))
}

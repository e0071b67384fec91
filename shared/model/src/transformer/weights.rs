//! From a checkpoint's tensors to the matrices that the forward pass uses.
//!
//! Matrices that read the same input become one (queries, keys and values; gate and up), because a product
//! of a few rows costs what its weights cost to read plus the price of a call. Each tensor is read, hashed
//! and packed on its own, so that loading needs little more memory than the result.

use std::borrow::Cow;

use tch::{Kind, Tensor};

use crate::checkpoint::{Checkpoint, Config, Values};
use crate::identity::WeightsHasher;
use crate::load::{Dtype, Error};
use crate::operators::Operators;

/// All that is learned.
pub(crate) struct Weights<O: Operators> {
    pub(crate) hidden_size: usize,
    pub(crate) ffn_size: usize,
    /// The embedding, unless it is the head.
    pub(crate) untied_embedding: Option<O::Table>,
    pub(crate) layers: Vec<Layer<O>>,
    /// f32 `[hidden]`.
    pub(crate) norm: Tensor,
    pub(crate) head: O::Matrix,
}

/// One block. Norms are f32 `[hidden]`.
pub(crate) struct Layer<O: Operators> {
    pub(crate) attention_norm: Tensor,
    pub(crate) qkv: O::Matrix,
    pub(crate) head_norms: Option<O::HeadNorms>,
    pub(crate) attention_output: O::Matrix,
    pub(crate) ffn_norm: Tensor,
    pub(crate) gate_up: O::Matrix,
    pub(crate) down: O::Matrix,
}

/// Reads a checkpoint for one set of operators, and keeps count and digest of what it has read.
pub(crate) struct Reader<'a, O> {
    checkpoint: &'a Checkpoint,
    operators: &'a O,
    dtype: Dtype,
    hasher: WeightsHasher,
    step_bytes: u64,
}

/// What [`Reader::read`] gives.
pub(crate) struct Read<O: Operators> {
    pub(crate) weights: Weights<O>,
    pub(crate) digest: [u8; 32],
    /// Bytes that a step of few rows reads.
    pub(crate) step_bytes: u64,
}

impl<'a, O: Operators> Reader<'a, O> {
    /// `dtype` is what the operators make of matrices.
    pub(crate) fn new(checkpoint: &'a Checkpoint, operators: &'a O, dtype: Dtype) -> Self {
        Self { checkpoint, operators, dtype, hasher: WeightsHasher::new(checkpoint.config()), step_bytes: 0 }
    }

    pub(crate) fn read(mut self) -> Result<Read<O>, Error> {
        let &Config { hidden_size, ffn_size, n_layers, tied_embeddings, .. } = self.checkpoint.config();
        let untied_embedding = (!tied_embeddings).then(|| self.table("model.embed_tokens", hidden_size)).transpose()?;
        let layers = (0..n_layers).map(|index| self.layer(index)).collect::<Result<_, _>>()?;
        let norm = self.norm("model.norm")?;
        let head = if tied_embeddings { "model.embed_tokens" } else { "lm_head" };
        let head = self.matrix(&[head], hidden_size, false)?;
        if let Some(ids) = self.checkpoint.draft_vocab() {
            self.hasher.add("draft_vocab", "u32", &[ids.len()], bytemuck::cast_slice(&ids));
        }
        let weights = Weights { hidden_size, ffn_size, untied_embedding, layers, norm, head };
        Ok(Read { weights, digest: self.hasher.finish(), step_bytes: self.step_bytes })
    }

    fn layer(&mut self, index: usize) -> Result<Layer<O>, Error> {
        let config = self.checkpoint.config();
        let (hidden, ffn, query_width) = (config.hidden_size, config.ffn_size, config.q_width());
        let (qkv_bias, output_bias, has_head_norms) = (config.qkv_bias, config.output_bias, config.has_qk_norm());
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let [q, k, v, o] = ["q", "k", "v", "o"].map(|part| name(&format!("self_attn.{part}_proj")));
        let [gate, up, down] = ["gate", "up", "down"].map(|part| name(&format!("mlp.{part}_proj")));
        let head_norms = if has_head_norms {
            let query = self.vector(&name("self_attn.q_norm.weight"))?;
            let key = self.vector(&name("self_attn.k_norm.weight"))?;
            Some(self.operators.head_norms(query, key)?)
        } else {
            None
        };
        let layer = Layer {
            attention_norm: self.norm(&name("input_layernorm"))?,
            qkv: self.matrix(&[&q, &k, &v], hidden, qkv_bias)?,
            head_norms,
            attention_output: self.matrix(&[&o], query_width, output_bias)?,
            ffn_norm: self.norm(&name("post_attention_layernorm"))?,
            gate_up: self.matrix(&[&gate, &up], hidden, false)?,
            down: self.matrix(&[&down], ffn, false)?,
        };
        tracing::debug!(layer = index, "layer loaded");
        Ok(layer)
    }

    /// The matrices `modules`, stacked, with their biases if they have any.
    fn matrix(&mut self, modules: &[&str], n_in: usize, has_bias: bool) -> Result<O::Matrix, Error> {
        let form = matches!(self.dtype, Dtype::Int8).then_some("int8");
        let parts = modules.iter().map(|module| self.tensor(&format!("{module}.weight"), form));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let bias = if has_bias {
            let parts = modules.iter().map(|module| self.vector(&format!("{module}.bias")));
            Some(parts.collect::<Result<Vec<_>, _>>()?.concat())
        } else {
            None
        };
        let matrix = self.operators.matrix(&parts, n_in, bias)?;
        self.step_bytes += self.operators.matrix_bytes(&matrix) as u64;
        Ok(matrix)
    }

    /// An embedding of its own, of which a step reads only a row for each token.
    fn table(&mut self, module: &str, width: usize) -> Result<O::Table, Error> {
        let rows = self.tensor(&format!("{module}.weight"), None)?;
        Ok(self.operators.table(&rows, width)?)
    }

    fn norm(&mut self, module: &str) -> Result<Tensor, Error> {
        let weight = self.vector(&format!("{module}.weight"))?;
        self.step_bytes += size_of_val(&*weight) as u64;
        Ok(Tensor::f_from_slice(&weight)?.f_to_device(self.operators.geometry().device)?)
    }

    /// A small tensor, which takes part in f32 whatever the dtype.
    fn vector(&mut self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.tensor(name, None)?.to_f32().into_owned())
    }

    /// A tensor in the model's element type, hashed together with the form in which it is to be kept, if that is
    /// another.
    fn tensor(&mut self, name: &str, form: Option<&str>) -> Result<Values<'a>, Error> {
        let tensor = self.checkpoint.tensor(name)?;
        let values = in_kind(tensor.values, self.operators.geometry().kind);
        let (dtype, bytes): (_, &[u8]) = match &values {
            Values::Bf16(values) => ("bf16", bytemuck::cast_slice(values)),
            Values::F32(values) => ("f32", bytemuck::cast_slice(values)),
        };
        self.hasher.add(name, form.unwrap_or(dtype), &tensor.shape, bytes);
        Ok(values)
    }
}

fn in_kind(values: Values<'_>, kind: Kind) -> Values<'_> {
    match (&values, kind) {
        (Values::F32(_), Kind::BFloat16) => Values::Bf16(Cow::Owned(values.to_bf16().into_owned())),
        (Values::Bf16(_), Kind::Float) => Values::F32(Cow::Owned(values.to_f32().into_owned())),
        _ => values,
    }
}

//! The forward pass, written once for every family and every set of operators.
//!
//! Llama (2, 3, SmolLM2, Mistral), Qwen2 and Qwen3 are one architecture: pre-norm blocks of grouped-query
//! attention and a gated feed-forward layer, with rotary positions. What differs is data, not code:
//!
//! | family | queries, keys and values | rotary frequencies | head |
//! |---|---|---|---|
//! | Llama 2, Mistral | plain | plain | own |
//! | Llama 3 | plain | scaled for long contexts | own, or tied to the embedding |
//! | SmolLM2 | plain | plain | tied to the embedding |
//! | Qwen2, Qwen2.5 | with bias | plain | own, or tied |
//! | Qwen3 | each head normed before it is rotated | plain | own, or tied |
//!
//! A bias is part of its matrix, head norms are an `Option` of the layer, the frequencies are in the tables,
//! and a tied head is the embedding read as a matrix. A head may also have fewer rows than the vocabulary
//! has ids: a draft that speaks only for the frequent ones (`draft_vocab`).

use tch::{Kind, Tensor};

use crate::batch::{self, ForwardError, LanguageModel, Logits, ModelDescription, Segment};
use crate::kv_cache::KvCache;
use crate::operators::{LayerCache, Operators, Result, RowPlan, Step};

mod weights;

use weights::Layer;
pub(crate) use weights::{Reader, Weights};

/// A transformer with its KV memory.
pub(crate) struct Transformer<O: Operators> {
    operators: O,
    weights: Weights<O>,
    caches: Vec<LayerCache>,
    kv: KvCache,
    description: ModelDescription,
}

impl<O: Operators> Transformer<O> {
    /// A model with room for `n_blocks` blocks of keys and values.
    pub(crate) fn new(
        operators: O,
        weights: Weights<O>,
        description: ModelDescription,
        n_blocks: usize,
    ) -> Result<Self, tch::TchError> {
        let new_cache = |_: &Layer<O>| LayerCache::new(operators.geometry(), n_blocks);
        let caches = weights.layers.iter().map(new_cache).collect::<Result<_, _>>()?;
        Ok(Self { operators, weights, caches, kv: KvCache::new(n_blocks), description })
    }

    fn compute(&mut self, plan: &RowPlan) -> Result<Logits> {
        let Self { operators, weights, caches, description, .. } = self;
        let mut logits = Logits::zeros(plan.wanted.len(), description.n_rows_of_head);
        if plan.n_rows() == 0 {
            return Ok(logits);
        }
        let geometry = operators.geometry();
        let empty = |n_rows: usize, width: usize, kind: Kind| {
            Tensor::f_empty([n_rows as i64, width as i64], (kind, geometry.device))
        };
        let (rows, dtype) = (plan.n_rows(), geometry.kind);
        let (hidden, ffn) = (weights.hidden_size, weights.ffn_size);
        let mut x = empty(rows, hidden, Kind::Float)?; // the residual stream
        let mut normed = empty(rows, hidden, dtype)?;
        let mut qkv = empty(rows, geometry.qkv_width(), Kind::Float)?;
        let mut queries = empty(rows, geometry.query_width(), dtype)?;
        let mut attended = empty(rows, geometry.query_width(), dtype)?;
        let mut gate_up = empty(rows, 2 * ffn, Kind::Float)?;
        let mut activated = empty(rows, ffn, dtype)?;

        let step = operators.begin(plan)?;
        match &weights.untied_embedding {
            Some(table) => step.embedding(table, &mut x)?, // [rows, hidden]
            None => step.tied_embedding(&weights.head, &mut x)?,
        }
        for (layer, cache) in weights.layers.iter().zip(caches) {
            step.rms_norm(&x, &layer.attention_norm, &mut normed)?; // [rows, hidden]
            step.linear(&normed, &layer.qkv, &mut qkv)?; // [rows, (n_heads + 2 n_kv_heads) * head_dim]
            step.rope_and_cache(&qkv, layer.head_norms.as_ref(), cache, &mut queries)?; // [rows, n_heads * head_dim]
            step.attention(&queries, cache, &mut attended)?; // [rows, n_heads * head_dim]
            step.linear_add(&attended, &layer.attention_output, &mut x)?; // [rows, hidden]

            step.rms_norm(&x, &layer.ffn_norm, &mut normed)?; // [rows, hidden]
            step.linear(&normed, &layer.gate_up, &mut gate_up)?; // [rows, 2 * ffn]
            step.swiglu(&gate_up, &mut activated)?; // [rows, ffn]
            step.linear_add(&activated, &layer.down, &mut x)?; // [rows, hidden]
        }

        let wanted = plan.wanted.len();
        if wanted > 0 {
            let x = selected_rows(&x, &plan.wanted)?; // [wanted, hidden]
            let mut normed = empty(wanted, hidden, dtype)?;
            step.rms_norm(&x, &weights.norm, &mut normed)?; // [wanted, hidden]
            step.head(&normed, &weights.head, logits.values_mut())?; // [wanted, n_rows_of_head]
        }
        Ok(logits)
    }
}

impl<O: Operators> LanguageModel for Transformer<O> {
    fn description(&self) -> &ModelDescription {
        &self.description
    }

    fn kv(&mut self) -> &mut KvCache {
        &mut self.kv
    }

    fn forward(&mut self, segments: &mut [Segment<'_>]) -> Result<Logits, ForwardError> {
        batch::check_segments(segments, &self.description, self.kv.n_blocks())?;
        let plan = RowPlan::new(segments);
        let logits = tch::no_grad(|| self.compute(&plan))?;
        for Segment { kv, tokens, .. } in segments {
            kv.advance(tokens.len());
        }
        Ok(logits)
    }
}

fn selected_rows(x: &Tensor, rows: &[usize]) -> Result<Tensor> {
    if rows.len() as i64 == x.size()[0] {
        return Ok(x.shallow_clone());
    }
    let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
    Ok(x.f_index_select(0, &Tensor::f_from_slice(&rows)?.f_to_device(x.device())?)?)
}

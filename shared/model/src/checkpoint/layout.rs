//! Which tensors a configuration implies, and the check that they are there.

use std::path::Path;

use super::config::Config;
use super::error::Error;

/// A tensor that the configuration implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Its Hugging Face name.
    pub name: String,
    /// Its shape, `[out, in]` for projections.
    pub shape: Vec<usize>,
}

impl Config {
    /// Every tensor of a model with this configuration and a head of `n_head_rows`, in the order of the forward pass.
    pub(crate) fn layout(&self, n_head_rows: usize) -> Vec<ExpectedTensor> {
        let mut tensors = Vec::new();
        let mut expect = |name: String, shape: &[usize]| tensors.push(ExpectedTensor { name, shape: shape.to_vec() });
        expect("model.embed_tokens.weight".into(), &[self.vocab_size, self.hidden_size]);
        for layer in 0..self.n_layers {
            for (name, shape) in block(self) {
                expect(format!("model.layers.{layer}.{name}"), &shape);
            }
        }
        expect("model.norm.weight".into(), &[self.hidden_size]);
        if !self.tied_embeddings {
            expect("lm_head.weight".into(), &[n_head_rows, self.hidden_size]);
        }
        tensors
    }
}

/// Compares what should be there with what is, and reports every difference at once.
pub(super) fn check(
    expected: &[ExpectedTensor],
    path: &Path,
    shape_of: impl Fn(&str) -> Option<Vec<usize>>,
) -> Result<(), Error> {
    let mut missing = Vec::new();
    let mut problems = Vec::new();
    for tensor in expected {
        match shape_of(&tensor.name) {
            None => missing.push(tensor.name.as_str()),
            Some(shape) if shape != tensor.shape => problems.push(format!(
                "{} has shape {shape:?} where the configuration implies {:?}",
                tensor.name, tensor.shape
            )),
            Some(_) => {}
        }
    }
    if !missing.is_empty() {
        let count = missing.len();
        problems.insert(0, format!("{count} of {} tensors are missing: {}", expected.len(), missing.join(", ")));
    }
    if problems.is_empty() { Ok(()) } else { Err(Error::incomplete(path, problems)) }
}

/// The tensors of one block, without the `model.layers.N.` in front.
fn block(config: &Config) -> Vec<(&'static str, Vec<usize>)> {
    let (hidden, ffn) = (config.hidden_size, config.ffn_size);
    let (q_width, kv_width) = (config.q_width(), config.kv_width());
    let mut tensors = vec![
        ("input_layernorm.weight", vec![hidden]),
        ("self_attn.q_proj.weight", vec![q_width, hidden]),
        ("self_attn.k_proj.weight", vec![kv_width, hidden]),
        ("self_attn.v_proj.weight", vec![kv_width, hidden]),
    ];
    if config.qkv_bias {
        tensors.push(("self_attn.q_proj.bias", vec![q_width]));
        tensors.push(("self_attn.k_proj.bias", vec![kv_width]));
        tensors.push(("self_attn.v_proj.bias", vec![kv_width]));
    }
    if config.has_qk_norm() {
        tensors.push(("self_attn.q_norm.weight", vec![config.head_dim]));
        tensors.push(("self_attn.k_norm.weight", vec![config.head_dim]));
    }
    tensors.push(("self_attn.o_proj.weight", vec![hidden, q_width]));
    if config.output_bias {
        tensors.push(("self_attn.o_proj.bias", vec![hidden]));
    }
    tensors.push(("post_attention_layernorm.weight", vec![hidden]));
    tensors.push(("mlp.gate_proj.weight", vec![ffn, hidden]));
    tensors.push(("mlp.up_proj.weight", vec![ffn, hidden]));
    tensors.push(("mlp.down_proj.weight", vec![hidden, ffn]));
    tensors
}

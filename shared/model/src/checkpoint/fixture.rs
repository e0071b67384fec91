//! One tiny model in both file forms, for tests.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::config::{Architecture, Config};
use super::config_json;
use super::generation::GenerationDefaults;
pub use super::gguf::fixture::{Entry, GgufBuilder};
use super::rope::{Rope, RopeScaling};

/// The vocabulary of the tiny model.
pub const TOKENS: [&str; 6] = ["<s>", "</s>", "a", "b", "ab", "Ġ"];
const TEMPLATE: &str = "{% for m in messages %}{{ bos_token + m.content }}{% endfor %}";

/// A Llama of two layers, width 8, 2 query heads of 4 on one key head.
pub fn config() -> Config {
    Config {
        architecture: Architecture::Llama,
        hidden_size: 8,
        n_layers: 2,
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
        ffn_size: 16,
        vocab_size: TOKENS.len(),
        rms_norm_eps: 1e-5,
        rope: Rope { theta: 10_000.0, scaling: RopeScaling::None },
        context_length: 64,
        tied_embeddings: true,
        qkv_bias: false,
        output_bias: false,
    }
}

/// Values that tell every element of every tensor apart; multiples of 1/256, so bf16 rounds them.
pub fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    let start = name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 512;
    (0..shape.iter().product::<usize>()).map(|i| (start as f32 - 256.0 + i as f32) / 256.0).collect()
}

/// The tiny model as a GGUF file, query and key rows interleaved as converters do for this architecture.
pub fn gguf() -> GgufBuilder {
    let config = config();
    let mut builder = GgufBuilder::default()
        .entry("general.architecture", Entry::Text("llama"))
        .entry("llama.embedding_length", Entry::U32(8))
        .entry("llama.block_count", Entry::U32(2))
        .entry("llama.attention.head_count", Entry::U32(2))
        .entry("llama.attention.head_count_kv", Entry::U32(1))
        .entry("llama.feed_forward_length", Entry::U32(16))
        .entry("llama.context_length", Entry::U32(64))
        .entry("llama.attention.layer_norm_rms_epsilon", Entry::F32(1e-5))
        .entry("llama.rope.freq_base", Entry::F32(10_000.0))
        .entry("tokenizer.ggml.model", Entry::Text("gpt2"))
        .entry("tokenizer.ggml.pre", Entry::Text("gpt-2"))
        .entry("tokenizer.ggml.tokens", Entry::Texts(&TOKENS))
        .entry("tokenizer.ggml.token_type", Entry::I32s(&[3, 3, 1, 1, 1, 1]))
        .entry("tokenizer.ggml.merges", Entry::Texts(&["a b"]))
        .entry("tokenizer.ggml.bos_token_id", Entry::U32(0))
        .entry("tokenizer.ggml.eos_token_id", Entry::U32(1))
        .entry("tokenizer.ggml.add_bos_token", Entry::Bool(true))
        .entry("tokenizer.chat_template", Entry::Text(TEMPLATE));
    for tensor in config.layout(config.vocab_size) {
        let values = values(&tensor.name, &tensor.shape);
        let is_rotated = tensor.name.contains("q_proj") || tensor.name.contains("k_proj");
        let values = if is_rotated { interleave(&values, config.head_dim, config.hidden_size) } else { values };
        builder = builder.tensor(&gguf_name(&tensor.name), &tensor.shape, &values);
    }
    builder
}

/// The tiny model as a folder, in f32, split over two shards if asked.
pub fn write_folder(folder: &Path, sharded: bool) {
    let config = config();
    let generation = GenerationDefaults { end_tokens: vec![1], begin_token: Some(0), ..Default::default() };
    let json = config_json::write(&config, &generation).to_string();
    std::fs::write(folder.join("config.json"), json).unwrap();
    let tokenizer_config =
        serde_json::json!({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": TEMPLATE});
    std::fs::write(folder.join("tokenizer_config.json"), tokenizer_config.to_string()).unwrap();
    let tensors: Vec<_> = config.layout(config.vocab_size).into_iter().map(|t| (t.name, t.shape)).collect();
    if !sharded {
        write_safetensors(&folder.join("model.safetensors"), &tensors);
        return;
    }
    let (first, second) = tensors.split_at(5);
    let mut map = BTreeMap::new();
    for (file, part) in [("one.safetensors", first), ("two.safetensors", second)] {
        write_safetensors(&folder.join(file), part);
        map.extend(part.iter().map(|(name, _)| (name.clone(), file)));
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
}

/// Tensors with their [`values`] in f32.
pub fn write_safetensors(path: &Path, tensors: &[(String, Vec<usize>)]) {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(name, shape)| values(name, shape).iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let views = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, shape), bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// Writes a GGUF file into a folder.
pub fn write_gguf(folder: &Path, builder: &GgufBuilder) -> PathBuf {
    let path = folder.join("tiny.gguf");
    std::fs::write(&path, builder.build()).unwrap();
    path
}

/// What llama.cpp's converter does to query and key rows: in each head, rows `i` and `i + half` become neighbours.
fn interleave(values: &[f32], head_dim: usize, row_len: usize) -> Vec<f32> {
    let half = head_dim / 2;
    let mut interleaved = Vec::new();
    for head in values.chunks(head_dim * row_len) {
        let rows: Vec<_> = head.chunks(row_len).collect();
        for pair in 0..half {
            interleaved.extend_from_slice(rows[pair]);
            interleaved.extend_from_slice(rows[pair + half]);
        }
    }
    interleaved
}

fn gguf_name(name: &str) -> String {
    let short = name
        .replace("model.layers.", "blk.")
        .replace("self_attn.o_proj", "attn_output")
        .replace("post_attention_layernorm", "ffn_norm")
        .replace("input_layernorm", "attn_norm")
        .replace("model.embed_tokens", "token_embd")
        .replace("model.norm", "output_norm");
    let short = ["q", "k", "v"]
        .iter()
        .fold(short, |text, part| text.replace(&format!("self_attn.{part}_proj"), &format!("attn_{part}")));
    ["gate", "up", "down"]
        .iter()
        .fold(short, |text, part| text.replace(&format!("mlp.{part}_proj"), &format!("ffn_{part}")))
}

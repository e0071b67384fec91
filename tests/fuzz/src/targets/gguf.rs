//! A GGUF file: header, metadata, tensor table, weights, tokenizer and chat template inside.

use specfleet_model::checkpoint::{
    Checkpoint,
    fixture::{self, Entry, GgufBuilder},
};

use super::{checkpoint, memory_folder};
use crate::{Allowance, Answer, Decode, Target};

/// Weights of two bits become numbers of 32, a tokenizer has caches of its own, and a template may work with 3 MB, in buffers
/// that grow by doubling.
pub(super) const TARGET: Target =
    Target { name: "gguf", allowance: Allowance { fixed: 16 << 20, per_byte: 256 }, seeds, start };

fn start() -> Decode {
    let folder = memory_folder();
    Box::new(move |bytes| {
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, bytes).expect("a file in a temporary folder");
        let opened = Checkpoint::open(&path);
        if let Ok(opened) = &opened {
            checkpoint::check(opened);
        }
        Answer::of(&opened)
    })
}

fn seeds() -> Vec<Vec<u8>> {
    [fixture::gguf(), sentencepiece(), quantised([14, 10, 11, 12, 13, 8]), quantised([1, 2, 3, 6, 7, 30])]
        .iter()
        .map(GgufBuilder::build)
        .collect()
}

/// A vocabulary of scores instead of merges.
fn sentencepiece() -> GgufBuilder {
    fixture::gguf()
        .without_entry("tokenizer.ggml.merges")
        .entry("tokenizer.ggml.model", Entry::Text("llama"))
        .entry("tokenizer.ggml.tokens", Entry::Texts(&["<unk>", "</s>", "a", "b", "ab", "<0x0A>"]))
        .entry("tokenizer.ggml.token_type", Entry::I32s(&[2, 3, 1, 1, 1, 6]))
        .entry("tokenizer.ggml.scores", Entry::F32s(&[0.0, 0.0, -1.0, -2.0, -3.0, 0.0]))
        .entry("tokenizer.ggml.unknown_token_id", Entry::U32(0))
}

/// One layer of width 256 whose embedding and four matrices are quantised in the given kinds (numbers of GGML).
fn quantised(kinds: [u32; 6]) -> GgufBuilder {
    const WIDTH: usize = 256;
    const HEAD: usize = 16;
    let norm = [1.0; WIDTH];
    let names = ["token_embd", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.ffn_gate", "blk.0.ffn_up"];
    let mut builder = fixture::gguf();
    for layer in 0..2 {
        for part in
            ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]
        {
            builder = builder.without_tensor(&format!("blk.{layer}.{part}.weight"));
        }
    }
    for (name, kind) in names.into_iter().zip(kinds) {
        let n_rows = if name == "token_embd" { fixture::TOKENS.len() } else { HEAD };
        let bytes = vec![0x21; n_rows * WIDTH / values_of_block(kind) * bytes_of_block(kind)];
        builder = builder.raw_tensor(&format!("{name}.weight"), &[n_rows, WIDTH], kind, bytes);
    }
    builder
        .entry("llama.embedding_length", Entry::U32(WIDTH as u32))
        .entry("llama.block_count", Entry::U32(1))
        .entry("llama.attention.head_count", Entry::U32(1))
        .entry("llama.attention.key_length", Entry::U32(HEAD as u32))
        .entry("llama.feed_forward_length", Entry::U32(HEAD as u32))
        .tensor("blk.0.attn_norm.weight", &[WIDTH], &norm)
        .tensor("blk.0.ffn_norm.weight", &[WIDTH], &norm)
        .tensor("output_norm.weight", &[WIDTH], &norm)
        .raw_tensor("blk.0.attn_output.weight", &[WIDTH, HEAD], 1, vec![0x11; WIDTH * HEAD * 2])
        .raw_tensor("blk.0.ffn_down.weight", &[WIDTH, HEAD], 30, vec![0x11; WIDTH * HEAD * 2])
}

fn values_of_block(kind: u32) -> usize {
    match kind {
        1 | 30 => 1,
        2..=8 => 32,
        _ => 256,
    }
}

fn bytes_of_block(kind: u32) -> usize {
    match kind {
        1 | 30 => 2,
        2 => 18,
        3 => 20,
        6 => 22,
        7 => 24,
        8 => 34,
        10 => 84,
        11 => 110,
        12 => 144,
        13 => 176,
        _ => 210,
    }
}

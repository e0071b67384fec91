#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::fixture::{Entry, GgufBuilder};
use crate::checkpoint::{Checkpoint, Error, RopeScaling, fixture};

fn open(builder: &GgufBuilder) -> Result<Checkpoint, Error> {
    open_bytes(&builder.build())
}

fn open_bytes(bytes: &[u8]) -> Result<Checkpoint, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, bytes).unwrap();
    Checkpoint::open(&path)
}

fn refusal(builder: &GgufBuilder) -> String {
    open(builder).err().unwrap().to_string()
}

#[test]
fn the_tiny_model_opens() {
    let checkpoint = open(&fixture::gguf()).unwrap();
    assert_eq!(*checkpoint.config(), fixture::config());
    assert_eq!(checkpoint.label(), "tiny");
    assert_eq!(checkpoint.generation().end_tokens, [1]);
    for tensor in checkpoint.layout() {
        let values = checkpoint.tensor(&tensor.name).unwrap().values.to_f32().into_owned();
        assert_eq!(values, fixture::values(&tensor.name, &tensor.shape), "{}", tensor.name);
    }
    assert!(matches!(checkpoint.tensor("lm_head.weight"), Err(Error::NoSuchTensor { .. })));
}

#[test]
fn a_file_that_ends_early_says_where() {
    let whole = fixture::gguf().build();
    for len in (0..whole.len()).step_by(17) {
        let error =
            open_bytes(&whole[..len]).err().unwrap_or_else(|| panic!("accepted {len} of {} bytes", whole.len()));
        assert!(matches!(error, Error::Damaged { .. } | Error::Io { .. }), "{len}: {error}");
    }
    let text = open_bytes(&whole[..600]).err().unwrap().to_string();
    assert!(text.contains("offset 595") && text.contains("remaining 5 bytes"), "{text}");
    let text = open_bytes(&whole[..whole.len() - 40]).err().unwrap().to_string();
    assert!(text.contains("but the file has only"), "{text}");
}

#[test]
fn missing_tensors_are_listed_all_at_once() {
    let builder = fixture::gguf().without_tensor("blk.1.ffn_up.weight").without_tensor("output_norm.weight");
    let text = refusal(&builder.tensor("blk.0.attn_norm.weight", &[4], &[0.0; 4]));
    assert!(text.contains("2 of 20 tensors are missing"), "{text}");
    assert!(text.contains("model.layers.1.mlp.up_proj.weight, model.norm.weight"), "{text}");
    assert!(text.contains("model.layers.0.input_layernorm.weight has shape [4]") && text.contains("[8]"), "{text}");
}

#[test]
fn missing_keys_are_listed_all_at_once() {
    let builder = fixture::gguf().without_entry("llama.block_count").without_entry("llama.context_length");
    let text = refusal(&builder);
    assert!(text.contains("llama.block_count, llama.context_length"), "{text}");
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let with = |key, entry| refusal(&fixture::gguf().entry(key, entry));
    assert!(with("general.architecture", Entry::Text("mamba")).contains("\"mamba\""));
    assert!(with("llama.rope.scaling.type", Entry::Text("yarn")).contains("\"yarn\""));
    assert!(with("llama.expert_count", Entry::U32(8)).contains("mixture of experts"));
    assert!(with("llama.rope.dimension_count", Entry::U32(2)).contains("dimension_count of 2"));
    assert!(with("llama.attention.sliding_window", Entry::U32(32)).contains("sliding window of 32"));
    assert!(with("split.count", Entry::U32(3)).contains("gguf-split"));
    let quantised = fixture::gguf().raw_tensor("output_norm.weight", &[256], 20, vec![0; 136]);
    let text = refusal(&quantised);
    assert!(text.contains("IQ4_NL") && text.contains("Q4_K"), "{text}");
    let text = refusal(&fixture::gguf().version(1));
    assert!(text.contains("version 1"), "{text}");
    let text = refusal(&fixture::gguf().version(3_u32.swap_bytes()));
    assert!(text.contains("big-endian"), "{text}");
}

#[test]
fn impossible_numbers_are_refused() {
    let with = |key, entry| refusal(&fixture::gguf().entry(key, entry));
    assert!(with("llama.attention.head_count_kv", Entry::U32(0)).contains("key-value heads is 0"));
    assert!(with("llama.block_count", Entry::U32(u32::MAX)).contains("number of layers is 4294967295"));
    assert!(with("llama.rope.freq_base", Entry::F32(f32::NAN)).contains("rope base is NaN"));
    assert!(with("llama.context_length", Entry::Text("many")).contains("not an unsigned integer"));
    assert!(with("general.alignment", Entry::U32(33)).contains("power of two"));
    assert!(with("tokenizer.ggml.token_type", Entry::I32s(&[1])).contains("6 tokens, but 1 token types"));
}

/// A table of a thousand layers over the bytes of one would make a small file as large as one likes in memory.
#[test]
fn tensors_that_share_bytes_are_refused() {
    let mut bytes = fixture::gguf().build();
    let offset_of = |bytes: &[u8], name: &str| {
        let name_end = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap() + name.len();
        // The number of sizes, two sizes, the type.
        name_end + 4 + 2 * 8 + 4
    };
    let (one, other) = (offset_of(&bytes, "blk.0.ffn_up.weight"), offset_of(&bytes, "blk.1.ffn_up.weight"));
    bytes.copy_within(one..one + 8, other);
    let text = open_bytes(&bytes).err().unwrap().to_string();
    assert!(text.contains("blk.0.ffn_up.weight and blk.1.ffn_up.weight share bytes"), "{text}");
}

#[test]
fn rope_scaling_is_read() {
    let linear = fixture::gguf()
        .entry("llama.rope.scaling.type", Entry::Text("linear"))
        .entry("llama.rope.scaling.factor", Entry::F32(4.0));
    assert_eq!(open(&linear).unwrap().config().rope.scaling, RopeScaling::Linear { factor: 4.0 });
    let factors = fixture::gguf().tensor("rope_freqs.weight", &[2], &[1.0, 8.0]);
    assert_eq!(open(&factors).unwrap().config().rope.scaling, RopeScaling::Factors(vec![1.0, 8.0]));
}

#[test]
fn an_end_of_turn_counts_as_an_end() {
    let tokens = ["<s>", "</s>", "a", "b", "ab", "<|im_end|>"];
    let builder = fixture::gguf()
        .entry("tokenizer.ggml.tokens", Entry::Texts(&tokens))
        .entry("tokenizer.ggml.token_type", Entry::I32s(&[3, 3, 1, 1, 1, 3]));
    assert_eq!(open(&builder).unwrap().generation().end_tokens, [1, 5]);
}

proptest! {
    /// Any few bytes changed anywhere: an error or another model, never a panic.
    #[test]
    fn damaged_bytes_never_panic(changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..8)) {
        let mut bytes = fixture::gguf().build();
        let len = bytes.len();
        for (place, byte) in changes {
            bytes[(place * len as f64) as usize] = byte;
        }
        if let Ok(checkpoint) = open_bytes(&bytes) {
            for tensor in checkpoint.layout() {
                let _ = checkpoint.tensor(&tensor.name);
            }
            let _ = checkpoint.tokenizer();
            let _ = checkpoint.chat_template();
        }
    }
}

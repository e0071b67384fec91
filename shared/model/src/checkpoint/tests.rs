#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::chat_template::ChatMessage;

fn folder(sharded: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_folder(folder.path(), sharded);
    folder
}

fn refusal(path: &Path) -> String {
    Checkpoint::open(path).err().unwrap().to_string()
}

#[test]
fn both_forms_hold_the_same_model() {
    let (whole, sharded) = (folder(false), folder(true));
    let gguf_folder = tempfile::tempdir().unwrap();
    let gguf = Checkpoint::open(&fixture::write_gguf(gguf_folder.path(), &fixture::gguf())).unwrap();
    for folder in [whole, sharded] {
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        assert_eq!(checkpoint.config(), gguf.config());
        assert_eq!(checkpoint.generation(), gguf.generation());
        for tensor in gguf.layout() {
            assert_eq!(checkpoint.tensor(&tensor.name).unwrap(), gguf.tensor(&tensor.name).unwrap(), "{}", tensor.name);
        }
    }
}

#[test]
fn both_forms_render_chats_the_same() {
    let folder = folder(false);
    let gguf_folder = tempfile::tempdir().unwrap();
    let gguf = fixture::write_gguf(gguf_folder.path(), &fixture::gguf());
    for path in [folder.path(), &gguf] {
        let template = Checkpoint::open(path).unwrap().chat_template().unwrap().unwrap();
        let message = ChatMessage::new("user", "ab");
        assert_eq!(template.render(&[message], true).unwrap(), "<s>ab");
    }
}

#[test]
fn a_template_file_comes_before_the_tokenizer_configuration() {
    let folder = folder(false);
    std::fs::write(folder.path().join("chat_template.jinja"), "{{ eos_token }}").unwrap();
    let template = Checkpoint::open(folder.path()).unwrap().chat_template().unwrap().unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "</s>");
    std::fs::remove_file(folder.path().join("chat_template.jinja")).unwrap();
    std::fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    assert!(Checkpoint::open(folder.path()).unwrap().chat_template().unwrap().is_none());
}

#[test]
fn missing_files_say_which() {
    let empty = tempfile::tempdir().unwrap();
    assert!(refusal(empty.path()).contains("there is no config.json"));
    assert!(refusal(&empty.path().join("absent")).contains("cannot open"));
    std::fs::write(empty.path().join("model.bin"), "").unwrap();
    assert!(refusal(&empty.path().join("model.bin")).contains("expected a .gguf file"));

    let sharded = folder(true);
    std::fs::remove_file(sharded.path().join("two.safetensors")).unwrap();
    assert!(refusal(sharded.path()).contains("1 of 2 shards are missing: two.safetensors"));

    let bare = folder(false);
    std::fs::remove_file(bare.path().join("model.safetensors")).unwrap();
    assert!(refusal(bare.path()).contains("neither model.safetensors nor"));
    assert!(folder(false).path().join("tokenizer.json").metadata().is_err());
}

#[test]
fn a_missing_tokenizer_does_not_hide_the_weights() {
    let folder = folder(false);
    let checkpoint = Checkpoint::open(folder.path()).unwrap();
    let error = checkpoint.tokenizer().err().unwrap().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn truncated_weights_are_damaged() {
    let folder = folder(false);
    let path = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for len in [1, 9, 500, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..len]).unwrap();
        let text = refusal(folder.path());
        assert!(text.contains("damaged") && text.contains(&format!("{len} bytes")), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any few bytes changed anywhere in the weights' file or the configuration: an error or another model, never a panic.
    #[test]
    fn damaged_files_never_panic(
        file in prop::sample::select(vec!["model.safetensors", "config.json"]),
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..8),
        is_in_front in any::<bool>(),
    ) {
        let folder = folder(false);
        let path = folder.path().join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        // Where lengths and names are.
        let len = if is_in_front { bytes.len().min(64) } else { bytes.len() };
        for (place, byte) in changes {
            bytes[(place * len as f64) as usize] = byte;
        }
        std::fs::write(&path, bytes).unwrap();
        if let Ok(checkpoint) = Checkpoint::open(folder.path()) {
            for tensor in checkpoint.layout() {
                let _ = checkpoint.tensor(&tensor.name);
            }
        }
    }
}

#[test]
fn an_index_cannot_reach_outside_its_folder() {
    let folder = folder(true);
    for name in ["../one.safetensors", "/etc/passwd", "a/b", "", "."] {
        let index = serde_json::json!({"weight_map": {"x": name}}).to_string();
        std::fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
        let text = refusal(folder.path());
        assert!(text.contains("is not a file name"), "{text}");
    }
}

/// Not read at all: such a file would be a model's weights under another name, or a device.
#[test]
fn a_gigantic_config_is_refused() {
    let folder = folder(false);
    let path = folder.path().join("config.json");
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(refusal(folder.path()).contains("no file of up to 268435456 bytes"));
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(refusal(folder.path()).contains("no file of up to"));
}

#[test]
fn a_reduced_head_is_read_and_checked() {
    let check = |ids: &[i64]| draft_vocab::check(ids, 6).map_err(|error| error.to_string());
    assert_eq!(check(&[0, 3, 5]).unwrap().as_ref(), [0, 3, 5]);
    assert!(check(&[]).unwrap_err().contains("empty"));
    assert!(check(&[3, 3]).unwrap_err().contains("3 is followed by 3"));
    assert!(check(&[-1, 3]).unwrap_err().contains("-1 is outside"));
    assert!(check(&[1, 6]).unwrap_err().contains("6 is outside the vocabulary of 6"));
}

#[test]
fn a_reduced_head_cannot_be_tied_to_the_embedding() {
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/reduced-head"));
    let folder = tempfile::tempdir().unwrap();
    for name in ["model.safetensors", "tokenizer.json"] {
        std::fs::copy(golden.join(name), folder.path().join(name)).unwrap();
    }
    let config = std::fs::read_to_string(golden.join("config.json")).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
    config["tie_word_embeddings"] = true.into();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let text = refusal(folder.path());
    assert!(text.contains("draft_vocab") && text.contains("tie_word_embeddings"), "{text}");
}

/// The published target, dequantised: a few values and sums computed with the Python package `gguf`.
#[test]
fn the_real_target_opens() {
    let Some(path) = std::env::var_os("SPECFLEET_TEST_TARGET") else {
        eprintln!("skipped: SPECFLEET_TEST_TARGET does not name the target's GGUF file");
        return;
    };
    let checkpoint = Checkpoint::open(Path::new(&path)).unwrap();
    let config = checkpoint.config();
    assert_eq!((config.n_layers, config.hidden_size, config.vocab_size), (30, 576, 49152));
    assert_eq!((config.n_heads, config.n_kv_heads, config.head_dim), (9, 3, 64));
    assert!(config.tied_embeddings);
    assert_eq!(config.rope.theta, 100_000.0);
    assert_eq!(
        (checkpoint.generation().end_tokens.as_slice(), checkpoint.generation().begin_token),
        ([2].as_slice(), Some(1))
    );
    for (name, at, expected) in REFERENCE {
        let tensor = checkpoint.tensor(name).unwrap();
        let values = tensor.values.to_f32();
        assert_eq!(values[at], expected, "{name}[{at}]");
    }
}

/// Tensor, index in row-major Hugging Face order, value.
const REFERENCE: [(&str, usize, f32); 9] = [
    ("model.embed_tokens.weight", 7110737, 0.11386299),
    ("model.layers.0.self_attn.q_proj.weight", 581, -0.2984619),
    ("model.layers.0.self_attn.q_proj.weight", 19108, 0.3057251),
    ("model.layers.0.self_attn.q_proj.weight", 172807, 0.203125),
    ("model.layers.29.self_attn.k_proj.weight", 1152, -0.047729492),
    ("model.layers.29.self_attn.k_proj.weight", 110591, 0.0819397),
    ("model.layers.7.mlp.down_proj.weight", 555555, 0.13549805),
    ("model.layers.3.self_attn.v_proj.weight", 4321, 0.042114258),
    ("model.norm.weight", 99, 1.7578125),
];

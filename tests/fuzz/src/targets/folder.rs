//! The JSON files of a model folder: configuration, generation defaults, tokenizer settings, index of shards.

use std::path::Path;

use specfleet_model::checkpoint::{Checkpoint, fixture};

use super::{checkpoint, memory_folder};
use crate::{Allowance, Answer, Decode, Target};

/// JSON takes much more room as a tree than as text, and a template in it may work with 3 MB.
pub(super) const TARGET: Target =
    Target { name: "folder", allowance: Allowance { fixed: 16 << 20, per_byte: 256 }, seeds, start };

/// The parts of an input, separated by bytes of 0, which JSON cannot hold. An empty part is a file that is not there.
const FILES: [&str; 4] =
    ["config.json", "generation_config.json", "tokenizer_config.json", "model.safetensors.index.json"];

fn start() -> Decode {
    let folder = memory_folder();
    fixture::write_folder(folder.path(), true);
    fixture::write_folder(folder.path(), false);
    Box::new(move |bytes| {
        let mut parts = bytes.split(|byte| *byte == 0);
        for name in FILES {
            write(&folder.path().join(name), parts.next().unwrap_or_default());
        }
        let opened = Checkpoint::open(folder.path());
        if let Ok(opened) = &opened {
            checkpoint::check(opened);
        }
        Answer::of(&opened)
    })
}

fn write(path: &Path, content: &[u8]) {
    if content.is_empty() {
        // It need not have been there.
        let _ = std::fs::remove_file(path);
    } else {
        std::fs::write(path, content).expect("a file in a temporary folder");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fixture::write_folder(folder.path(), true);
    let [config, _, tokenizer, index] = FILES.map(|name| std::fs::read(folder.path().join(name)).unwrap_or_default());
    let generation =
        br#"{"do_sample":true,"temperature":0.6,"top_p":0.9,"top_k":50,"eos_token_id":[1,2],"bos_token_id":0}"#;
    let scaled = String::from_utf8_lossy(&config).replace(
        "\"rope_theta\"",
        r#""rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":32},"rope_theta""#,
    );
    [
        [&config[..], b"", b"", b""],
        [&config, generation, &tokenizer, &index],
        [scaled.as_bytes(), generation, br#"{"chat_template":[{"name":"default","template":"{{ messages }}"}]}"#, b""],
    ]
    .map(|parts| parts.join(&0))
    .into()
}

//! The splits that come before the merges, by the name that GGUF files give them.

use serde_json::{Value, json};

use super::Error;

/// What a name implies.
pub(super) struct PreTokenizer {
    pub(super) normalizer: Option<Value>,
    pub(super) pre_tokenizer: Value,
    /// A piece that is a token as it stands is not put together by merges.
    pub(super) ignore_merges: bool,
    /// Texts begin with the begin token unless the file says otherwise.
    pub(super) adds_begin: bool,
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Finds the splits of a name.
pub(super) fn find(name: &str) -> Result<PreTokenizer, Error> {
    let plain =
        |pre_tokenizer| PreTokenizer { normalizer: None, pre_tokenizer, ignore_merges: false, adds_begin: false };
    Ok(match name {
        "gpt-2" => plain(byte_level(true)),
        // Digits go one by one, and that happens first: the byte-level split then sees each digit alone, so that " 12"
        // becomes " ", "1", "2".
        "smollm" => plain(sequence([json!({"type": "Digits", "individual_digits": true}), byte_level(true)])),
        "llama-bpe" | "llama3" | "llama-v3" => PreTokenizer {
            ignore_merges: true,
            adds_begin: true,
            ..plain(sequence([split(LLAMA3), byte_level(false)]))
        },
        "qwen2" | "qwen3" => PreTokenizer {
            normalizer: Some(json!({"type": "NFC"})),
            ..plain(sequence([split(QWEN2), byte_level(false)]))
        },
        // What llama.cpp applies to files that name no split: punctuation in runs, GPT-2's pattern, digits in threes.
        "default" => plain(sequence([
            split(r"[\p{P}$+<=>^~|]+"),
            split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
            split(r"\p{N}+"),
            split("[0-9][0-9][0-9]"),
            byte_level(false),
        ])),
        other => {
            return Err(Error::Unsupported {
                what: "pre-tokenizer",
                name: other.to_owned(),
                supported: "default, gpt-2, llama-bpe, qwen2, smollm; or use the model's Hugging Face folder"
                    .to_owned(),
            });
        }
    })
}

/// Bytes to the printable alphabet, after GPT-2's pattern if `use_regex`.
fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// Every match, and every stretch between matches, becomes a piece.
fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

fn sequence<const N: usize>(steps: [Value; N]) -> Value {
    json!({"type": "Sequence", "pretokenizers": steps.to_vec()})
}

//! `tokenizer.json`.

use specfleet_model::{checkpoint::GenerationDefaults, tokenizer::Tokenizer};

use super::checkpoint;
use crate::{Allowance, Answer, Decode, Target};

/// The library keeps every token several times and has caches of its own.
pub(super) const TARGET: Target =
    Target { name: "tokenizer", allowance: Allowance { fixed: 2 << 20, per_byte: 1024 }, seeds, start };

fn start() -> Decode {
    Box::new(|bytes| {
        let read = Tokenizer::from_json(bytes, &GenerationDefaults::default());
        if let Ok(tokenizer) = &read {
            checkpoint::check_tokenizer(tokenizer);
        }
        Answer::of(&read)
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let model = r#"{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
        "fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
        "vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"<s>":4,"▁":5,"<0x0A>":6},"merges":[["a","b"]]}"#;
    let added = r#"[{"id":4,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
        {"id":7,"content":"🦀","single_word":false,"lstrip":true,"rstrip":true,"normalized":true,"special":false}]"#;
    let byte_level = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}"#;
    let split = r#"{"type":"Sequence","pretokenizers":[
        {"type":"Split","pattern":{"Regex":"\\p{N}{1,3}|\\s+(?!\\S)|\\p{L}+"},"behavior":"Isolated","invert":false},
        {"type":"Digits","individual_digits":true},
        {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}"#;
    let template = r#"{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"<s>":{"id":"<s>","ids":[4],"tokens":["<s>"]}}}"#;
    let spaces = r#"{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},
        {"type":"Replace","pattern":{"String":" "},"content":"▁"}]}"#;
    let fallback = r#"{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
        {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}"#;
    [
        ("null", byte_level, "null", byte_level),
        (r#"{"type":"NFC"}"#, split, template, byte_level),
        (spaces, "null", template, fallback),
    ]
    .map(|(normalizer, pre_tokenizer, post_processor, decoder)| {
        format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":{added},"normalizer":{normalizer},
            "pre_tokenizer":{pre_tokenizer},"post_processor":{post_processor},"decoder":{decoder},"model":{model}}}"#
        )
        .into_bytes()
    })
    .into()
}

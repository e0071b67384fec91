#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use serde::Deserialize;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper};

use super::*;
use crate::checkpoint::{Checkpoint, fixture};

const VARIED: [&str; 8] = [
    "Hello, world!",
    "  spaces\t\ttabs\n\n\nlines\r\n",
    "3.14159 and 1,000,000 or 0x7f",
    "fn main() { println!(\"{}\", 1 << 3); }",
    "naïve — “quotes” … ½",
    "日本語 한국어 Привет שלום नमस्ते",
    "🦀👩‍👩‍👧‍👦🇨🇭",
    "\u{0}\u{1}\u{7f}\u{a0}\u{200b}",
];

#[derive(Deserialize)]
struct Golden {
    texts: Vec<String>,
    ids: Vec<Vec<TokenId>>,
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/golden/tokenizer/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The real target's tokenizer, where the environment names the file.
fn target() -> Option<Tokenizer> {
    let Some(path) = std::env::var_os("SPECFLEET_TEST_TARGET") else {
        eprintln!("skipped: SPECFLEET_TEST_TARGET does not name the target's GGUF file");
        return None;
    };
    Some(Checkpoint::open(Path::new(&path)).unwrap().tokenizer().unwrap())
}

/// A `tokenizer.json` with this model and pre-tokenizer.
fn json_tokenizer(model: &str, pre_tokenizer: &str) -> String {
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":null,"model":{model}}}"#
    )
}

proptest! {
    /// Any few bytes changed anywhere in a `tokenizer.json`: an error or another tokenizer, never a panic.
    #[test]
    fn damaged_files_never_panic(changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..8)) {
        let model = r#"{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}"#;
        let mut bytes = json_tokenizer(model, "null").into_bytes();
        prop_assert!(Tokenizer::from_json(&bytes, &GenerationDefaults::default()).is_ok());
        let len = bytes.len();
        for (place, byte) in changes {
            bytes[(place * len as f64) as usize] = byte;
        }
        if let Ok(tokenizer) = Tokenizer::from_json(&bytes, &GenerationDefaults::default()) {
            let _ = tokenizer.encode("abba", true);
        }
    }
}

fn tiny() -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    Checkpoint::open(&fixture::write_gguf(folder.path(), &fixture::gguf())).unwrap().tokenizer().unwrap()
}

fn text_of(tokenizer: &Tokenizer, ids: &[TokenId]) -> String {
    let mut detokenizer = Detokenizer::new();
    let mut text: String = ids.iter().map(|id| detokenizer.push(tokenizer, *id)).collect();
    text.push_str(&detokenizer.finish());
    text
}

#[test]
fn special_tokens_are_named_but_are_not_text() {
    let tokenizer = tiny();
    assert_eq!(tokenizer.vocab_size(), 6);
    assert!(tokenizer.is_special(0) && tokenizer.is_special(1) && !tokenizer.is_special(2));
    assert_eq!((tokenizer.token_bytes(0), tokenizer.spelling(0)), (None, Some(b"<s>".as_slice())));
    assert_eq!(tokenizer.token_bytes(5), Some(b" ".as_slice()));
    assert_eq!((tokenizer.token_bytes(6), tokenizer.spelling(6)), (None, None));
    assert_eq!((tokenizer.end_tokens(), tokenizer.begin_token()), ([1].as_slice(), Some(0)));
}

#[test]
fn the_begin_token_is_added_on_request_and_read_in_text() {
    let tokenizer = tiny();
    assert_eq!(tokenizer.encode("ab a", true).unwrap(), [0, 4, 5, 2]);
    assert_eq!(tokenizer.encode("<s>ab a</s>", false).unwrap(), [0, 4, 5, 2, 1]);
    assert_eq!(text_of(&tokenizer, &[0, 4, 5, 2, 1]), "ab a");
}

#[test]
fn a_saved_tokenizer_encodes_and_spells_the_same() {
    let (tokenizer, folder) = (tiny(), tempfile::tempdir().unwrap());
    let path = folder.path().join("tokenizer.json");
    tokenizer.save(&path).unwrap();
    let generation = GenerationDefaults { end_tokens: vec![1], begin_token: Some(0), ..Default::default() };
    let loaded = Tokenizer::from_json(&std::fs::read(&path).unwrap(), &generation).unwrap();
    assert_eq!(loaded.encode("ab ba</s>", true).unwrap(), tokenizer.encode("ab ba</s>", true).unwrap());
    for id in 0..7 {
        assert_eq!((loaded.spelling(id), loaded.is_special(id)), (tokenizer.spelling(id), tokenizer.is_special(id)));
    }
    let error = tokenizer.save(&folder.path().join("no/such/folder")).unwrap_err().to_string();
    assert!(error.contains("no/such/folder"), "{error}");
}

#[test]
fn truncation_and_padding_in_the_file_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    tiny().save(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    let loaded = Tokenizer::from_json(json.to_string().as_bytes(), &GenerationDefaults::default()).unwrap();
    assert_eq!(loaded.encode("a b a b", false).unwrap().len(), 7);
}

#[test]
fn damaged_files_are_errors() {
    let error = |json: &[u8]| Tokenizer::from_json(json, &GenerationDefaults::default()).err().unwrap().to_string();
    assert!(error(b"{}").contains("damaged"));
    let with_model = |model: &str| error(json_tokenizer(model, "null").as_bytes());
    let merges_out_of_bounds = with_model(r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":[["a","b"]]}"#);
    assert!(merges_out_of_bounds.contains("damaged"));
    let absurd_id = with_model(r#"{"type":"BPE","vocab":{"a":4294967295},"merges":[]}"#);
    assert!(absurd_id.contains("ids up to 4294967296"));
    let other = with_model(r#"{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}"#);
    assert!(other.contains("WordLevel") && other.contains("supported: BPE"), "{other}");
}

#[test]
fn one_token_with_a_great_id_is_refused_before_a_table_is_made() {
    let json = json_tokenizer(r#"{"type":"BPE","vocab":{"a":0,"b":16000000},"merges":[]}"#, "null");
    let text = Tokenizer::from_json(json.as_bytes(), &GenerationDefaults::default()).err().unwrap().to_string();
    assert!(text.contains("2 tokens have ids up to 16000001"), "{text}");
    let json = json_tokenizer(r#"{"type":"BPE","vocab":{"a":0,"b":60000},"merges":[]}"#, "null");
    let tokenizer = Tokenizer::from_json(json.as_bytes(), &GenerationDefaults::default()).unwrap();
    assert_eq!((tokenizer.spelling(60_000), tokenizer.spelling(1)), (Some(b"b".as_slice()), None));
}

/// The ids around a text are numbers in the file, beside the names of the tokens.
#[test]
fn a_begin_token_that_is_no_token_is_an_error() {
    let template = r#"{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a","type_id":0}},
        {"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"a":{"id":"a","ids":[4000000000],"tokens":["a"]}}}"#;
    let json = json_tokenizer(r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}"#, "null");
    let json = json.replace(r#""post_processor":null"#, &format!(r#""post_processor":{template}"#));
    let tokenizer = Tokenizer::from_json(json.as_bytes(), &GenerationDefaults::default()).unwrap();
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [0, 1]);
    let error = tokenizer.encode("ab", true).unwrap_err().to_string();
    assert!(error.contains("adds the id 4000000000"), "{error}");
}

/// The regular expressions of the library panic when they have tried for too long.
#[test]
fn a_pattern_that_gives_up_is_an_error_of_its_text() {
    let split = r#"{"type":"Split","pattern":{"Regex":"(a+)+(a+)+(a+)+$"},"behavior":"Isolated","invert":false}"#;
    let json = json_tokenizer(r#"{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}"#, split);
    let tokenizer = Tokenizer::from_json(json.as_bytes(), &GenerationDefaults::default()).unwrap();
    let text = "a".repeat(200) + "b";
    assert!(matches!(tokenizer.encode(&text, false), Err(Error::Encode(_))));
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [0, 1]);
}

/// Every part of "aaa..." is a token: each has as many cuts as letters, and the merges grow with the cube.
#[test]
fn a_vocabulary_of_all_repetitions_is_refused() {
    let repetitions: Vec<String> = (1..400).map(|n| "a".repeat(n)).collect();
    let vocabulary = |tokens: Vec<&str>| {
        let n_tokens = tokens.len();
        let vocabulary = GgufVocabulary {
            model: "llama",
            pre: "default",
            tokens,
            types: vec![TokenType::Normal; n_tokens],
            scores: Some(vec![0.0; n_tokens]),
            merges: None,
            begin: None,
            end: None,
            unknown: None,
            add_begin: None,
            add_end: None,
            add_space_prefix: None,
        };
        gguf::convert(&vocabulary).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let text = vocabulary(repetitions.iter().map(String::as_str).collect());
    assert!(text.contains("more than 16 merges each"), "{text}");
    let text = vocabulary(vec!["a", &"b".repeat(2000)]);
    assert!(text.contains("a token has 2000 bytes"), "{text}");
}

#[test]
fn vocabularies_that_are_not_built_are_named() {
    let mut vocabulary = GgufVocabulary {
        model: "bert",
        pre: "gpt-2",
        tokens: vec!["a"],
        types: vec![TokenType::Normal],
        scores: None,
        merges: Some(vec![]),
        begin: None,
        end: None,
        unknown: None,
        add_begin: None,
        add_end: None,
        add_space_prefix: None,
    };
    let error = |vocabulary: &GgufVocabulary<'_>| gguf::convert(vocabulary).err().unwrap().to_string();
    assert!(error(&vocabulary).contains("model \"bert\""));
    vocabulary.model = "gpt2";
    vocabulary.pre = "tekken";
    let text = error(&vocabulary);
    assert!(text.contains("pre-tokenizer \"tekken\"") && text.contains("smollm"), "{text}");
    vocabulary.pre = "gpt-2";
    vocabulary.merges = Some(vec!["a aaaaaaaa"]);
    assert!(error(&vocabulary).contains("the merge \"a aaaaaaaa\""));
}

#[test]
fn padding_has_no_spelling() {
    let vocabulary = GgufVocabulary {
        model: "gpt2",
        pre: "qwen2",
        tokens: vec!["a", "<|end|>", "[PAD2]", "<think>", "[PAD4]"],
        types: [1, 3, 5, 4, 5].map(TokenType::from_ggml).to_vec(),
        scores: None,
        merges: Some(vec![]),
        begin: None,
        end: Some(1),
        unknown: None,
        add_begin: None,
        add_end: Some(true),
        add_space_prefix: None,
    };
    let tokenizer = Tokenizer::from_gguf(&vocabulary, &GenerationDefaults::default()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 4);
    assert_eq!(tokenizer.spelling(2), None);
    assert_eq!(tokenizer.token_bytes(3), Some(b"<think>".as_slice()), "a user-defined token is text");
    assert_eq!(tokenizer.encode("a<think>a", true).unwrap(), [0, 3, 0, 1]);
}

#[test]
fn splits_agree_with_the_patterns() {
    #[derive(Deserialize)]
    struct Pieces {
        texts: Vec<String>,
        pieces: std::collections::BTreeMap<String, Vec<Vec<String>>>,
    }
    let golden: Pieces = serde_json::from_str(&golden("pieces.json")).unwrap();
    for (name, expected) in golden.pieces {
        let json = pre_tokenizer::find(&name).unwrap().pre_tokenizer;
        let splitter: PreTokenizerWrapper = serde_json::from_value(json).unwrap();
        for (text, expected) in golden.texts.iter().zip(expected) {
            let mut pieces = PreTokenizedString::from(text.as_str());
            splitter.pre_tokenize(&mut pieces).unwrap();
            let splits = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let pieces: Vec<_> = splits.iter().map(|(_, (start, end), _)| &text[*start..*end]).collect();
            assert_eq!(pieces, expected, "{name}: {text:?}");
        }
    }
}

#[test]
fn sentencepiece_agrees_with_its_library() {
    #[derive(Deserialize)]
    struct Small {
        tokens: Vec<String>,
        scores: Vec<f32>,
        types: Vec<i32>,
        texts: Vec<String>,
        ids: Vec<Vec<TokenId>>,
    }
    let golden: Small = serde_json::from_str(&golden("sentencepiece.json")).unwrap();
    let vocabulary = GgufVocabulary {
        model: "llama",
        pre: "default",
        tokens: golden.tokens.iter().map(String::as_str).collect(),
        types: golden.types.iter().map(|number| TokenType::from_ggml(*number)).collect(),
        scores: Some(golden.scores),
        merges: None,
        begin: Some(1),
        end: Some(2),
        unknown: Some(0),
        add_begin: None,
        add_end: None,
        add_space_prefix: None,
    };
    let tokenizer = Tokenizer::from_gguf(&vocabulary, &GenerationDefaults::default()).unwrap();
    for (text, ids) in golden.texts.iter().zip(golden.ids) {
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{text:?}");
        let with_begin = tokenizer.encode(text, true).unwrap();
        assert_eq!((with_begin[0], &with_begin[1..]), (1, ids.as_slice()));
        let spelled = text_of(&tokenizer, &ids);
        assert_eq!(spelled.strip_prefix(' ').unwrap_or(&spelled), text, "bytes come back, after the space in front");
    }
    assert_eq!(tokenizer.token_bytes(3 + 0x0A), Some(b"\n".as_slice()));
}

#[test]
fn the_real_tokenizer_agrees_with_a_plain_implementation() {
    let Some(tokenizer) = target() else { return };
    let golden: Golden = serde_json::from_str(&golden("smollm2.json")).unwrap();
    for (text, ids) in golden.texts.iter().zip(golden.ids) {
        assert_eq!(tokenizer.encode(text, true).unwrap(), ids, "{text:?}");
    }
}

#[test]
fn the_real_tokenizer_splits_digits_and_knows_its_specials() {
    let Some(tokenizer) = target() else { return };
    assert_eq!(tokenizer.vocab_size(), 49152);
    let digits = tokenizer.encode("12345", false).unwrap();
    assert_eq!(digits.len(), 5);
    assert_eq!(tokenizer.encode("<|im_start|>", false).unwrap(), [1]);
    assert!(tokenizer.is_special(2) && tokenizer.token_bytes(2).is_none());
    assert_eq!(tokenizer.end_tokens(), [2]);
}

#[test]
fn every_text_comes_back_from_the_real_tokenizer() {
    let Some(tokenizer) = target() else { return };
    for text in VARIED {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(text_of(&tokenizer, &ids), text);
    }
}

#[cfg(feature = "scripted")]
mod scripted {
    use super::*;

    #[test]
    fn raw_bytes_take_the_longest_match() {
        let tokens = vec![b"a".to_vec(), b"ab".to_vec(), vec![0xF0, 0x9F], vec![0xA6, 0x80], b"<end>".to_vec()];
        let tokenizer = Tokenizer::from_bytes(tokens, &[4], &[4]);
        assert_eq!(tokenizer.encode("aab🦀", true).unwrap(), [0, 1, 2, 3]);
        assert_eq!(text_of(&tokenizer, &[0, 2, 3, 4]), "a🦀");
        assert!(tokenizer.is_special(4) && tokenizer.end_tokens() == [4]);
        let error = tokenizer.encode("a<end>", false).unwrap_err().to_string();
        assert!(error.contains("0x3c at offset 1"), "{error}");
        assert!(tokenizer.save(Path::new("unused")).is_err());
    }
}

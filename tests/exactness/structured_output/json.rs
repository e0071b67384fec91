//! Models of noise write JSON by a schema: whatever they like, it parses, and it is what the schema says.

use futures::future::join_all;
use serde_json::Value;
use specfleet_client::v1::{
    AcceptanceRule, FinishReason, GenerateRequest, OutputGrammar, SamplingParams, SpeculationOptions,
    output_grammar::Form,
};
use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    in_process::Pair,
    outcome::Outcome,
    real_models::long_form,
    scripted_pair::{request, settings},
};

use super::{loaded, of_form};

const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["new", "old", 7]}, "maxItems": 3},
        "home": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/home"}]}
    },
    "$defs": {
        "home": {
            "type": "object",
            "properties": {"at": {"type": "boolean"}},
            "required": ["at"],
            "additionalProperties": false
        }
    },
    "required": ["name", "age", "tags", "home"],
    "additionalProperties": false
}"##;

/// Single characters, and tokens of several that cross what a parser would call borders.
const TOKENS: [&str; 62] = [
    "a", "b", "e", "g", "h", "i", "l", "m", "n", "o", "r", "s", "t", "u", "w", "f", "d", "x", "0", "1", "2", "3", "4",
    "5", "6", "7", "8", "9", "{", "}", "[", "]", "\"", ":", ",", " ", "\n", "\\", "{\"", "\":", "\": ", "\",\"", "\"}",
    ", \"", "},", "true", "false", "null", "name", "age", "tags", "home", "at\":", "new", "old", "[\"", "\"]", "],\"",
    "\u{e9}", "12", "1999", "  ",
];
const END: TokenId = TOKENS.len() as TokenId;
pub(super) const N_VOCAB: usize = TOKENS.len() + 1;

pub(super) fn tokenizer() -> Tokenizer {
    let mut tokens: Vec<Vec<u8>> = TOKENS.iter().map(|token| token.as_bytes().to_vec()).collect();
    tokens.push(b"<end>".to_vec());
    Tokenizer::from_bytes(tokens, &[END], &[END])
}

/// A row that depends on the last three tokens and on `taste`, as if at random.
pub(super) fn noise(taste: u64) -> ScriptedModel {
    let mix = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let model = ScriptedModel::from_fn(N_VOCAB, move |prefix| {
        let context = prefix.iter().rev().take(3).fold(17, |hash, token| mix(hash, u64::from(*token)));
        // Draft and target agree by half.
        let logit = |token| {
            let shared = mix(mix(context, token), 1) >> 40;
            let own = mix(mix(context, token), taste) >> 40;
            (shared + own) as f32 / (1 << 24) as f32 * 3.0
        };
        (0..N_VOCAB as u64).map(logit).collect()
    });
    model.with_weights_digest([taste as u8; 32])
}

pub(super) fn by_schema(request: GenerateRequest) -> GenerateRequest {
    of_form(Some(OutputGrammar { form: Some(Form::JsonSchema(SCHEMA.to_owned())) }), request)
}

pub(super) fn text(outcome: &Outcome) -> String {
    outcome.rounds.iter().flat_map(|round| &round.tokens).map(|token| &*token.text).collect()
}

#[track_caller]
pub(super) fn assert_valid(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let object = value.as_object().unwrap();
    let keys: Vec<&str> = object.keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "age", "tags", "home"], "{text}");
    assert!(object["name"].as_str().unwrap().chars().count() <= 6, "{text}");
    assert!(object["age"].as_u64().unwrap() <= 150, "{text}");
    let tags = object["tags"].as_array().unwrap();
    assert!(
        tags.len() <= 3 && tags.iter().all(|tag| [Value::from("new"), "old".into(), 7.into()].contains(tag)),
        "{text}"
    );
    let home = &object["home"];
    assert!(home.is_null() || home.as_object().unwrap().values().all(Value::is_boolean), "{text}");
}

fn sampled(temperature: f32, seed: u64) -> GenerateRequest {
    let sampling = SamplingParams { temperature: Some(temperature), ..SamplingParams::default() };
    GenerateRequest { sampling: Some(sampling), seed: Some(seed), ..request(&[seed as TokenId % 20], 500) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_at_a_high_temperature_writes_what_the_schema_says() {
    let tokenizer = tokenizer();
    let pair = Pair::start(loaded(noise(2), &tokenizer), loaded(noise(3), &tokenizer), settings()).await;
    let n_seeds = if long_form() { 3000 } else { 120 };
    let (mut texts, mut n_accepted) = (Vec::new(), 0);
    for first in (0..n_seeds).step_by(8) {
        let run = async |seed: u64| {
            let rule = if seed.is_multiple_of(2) { AcceptanceRule::Standard } else { AcceptanceRule::DraftInvariant };
            let max_draft_length = Some(1 + seed as u32 % 8);
            let speculation = SpeculationOptions { max_draft_length, rule: rule.into(), ..Default::default() };
            let request = GenerateRequest { speculation: Some(speculation), ..sampled(1.5, seed) };
            Outcome::of(&pair.client, by_schema(request)).await.unwrap()
        };
        for outcome in join_all((first..first + 8).map(run)).await {
            assert_eq!(outcome.finished.reason(), FinishReason::Stop, "{}", text(&outcome));
            assert_valid(&text(&outcome));
            n_accepted += outcome.speculation().accepted;
            texts.push(text(&outcome));
        }
    }
    texts.sort();
    texts.dedup();
    assert!(texts.len() as u64 > n_seeds / 2, "{} texts", texts.len());
    assert!(u64::from(n_accepted) > n_seeds, "{n_accepted} draft tokens accepted");
}

/// Cut by max_tokens, the beginning of what it would have been: no other form is made of it, and the reason says so.
#[tokio::test(flavor = "multi_thread")]
async fn max_tokens_cuts_a_form_short() {
    let tokenizer = tokenizer();
    let pair = Pair::start(loaded(noise(2), &tokenizer), loaded(noise(3), &tokenizer), settings()).await;
    let whole = Outcome::of(&pair.client, by_schema(sampled(1.0, 5))).await.unwrap();
    let request = GenerateRequest { max_tokens: Some(4), ..sampled(1.0, 5) };
    let cut = Outcome::of(&pair.client, by_schema(request)).await.unwrap();
    assert_eq!(cut.finished.reason(), FinishReason::Length);
    assert_eq!(cut.token_ids(), whole.token_ids()[..4]);
    let off = GenerateRequest { speculation: Some(drafts::off()), ..sampled(1.0, 5) };
    let plain = Outcome::of(&pair.client, by_schema(off)).await.unwrap();
    assert_eq!(plain.token_ids(), whole.token_ids());
}

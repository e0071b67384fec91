//! What a model was published with: sampling defaults and the ids that begin and end a text.

use serde_json::Value;
use specfleet_speculation::TokenId;

/// Sampling defaults and special ids, as far as the model states them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// Temperature that its authors recommend; 0 where they publish it as greedy.
    pub temperature: Option<f32>,
    /// Nucleus mass.
    pub top_p: Option<f32>,
    /// Number of likeliest tokens kept.
    pub top_k: Option<u32>,
    /// Least probability relative to the likeliest token.
    pub min_p: Option<f32>,
    /// Penalty on tokens that occurred.
    pub repetition_penalty: Option<f32>,
    /// Ids that end a text, ascending.
    pub end_tokens: Vec<TokenId>,
    /// The id that begins a text.
    pub begin_token: Option<TokenId>,
}

impl GenerationDefaults {
    /// From `generation_config.json`, with `config.json` for the special ids that it leaves out. Ids that are not
    /// below `vocab_size` mean "none" (some configurations write -1).
    pub(super) fn from_json(generation: &Value, config: &Value, vocab_size: usize) -> Self {
        let number = |key: &str| generation.get(key).and_then(Value::as_f64).map(|value| value as f32);
        let ids = |key: &str| {
            let listed = token_ids(generation.get(key), vocab_size);
            if listed.is_empty() { token_ids(config.get(key), vocab_size) } else { listed }
        };
        let greedy = generation.get("do_sample").and_then(Value::as_bool) == Some(false);
        Self {
            temperature: if greedy { Some(0.0) } else { number("temperature") },
            top_p: number("top_p"),
            top_k: generation.get("top_k").and_then(Value::as_u64).and_then(|value| value.try_into().ok()),
            min_p: number("min_p"),
            repetition_penalty: number("repetition_penalty"),
            end_tokens: ids("eos_token_id"),
            begin_token: ids("bos_token_id").first().copied(),
        }
    }

    /// As `generation_config.json`.
    pub(crate) fn to_json(&self) -> Value {
        let mut map = serde_json::Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("bos_token_id", self.begin_token.map(Value::from));
        put("eos_token_id", (!self.end_tokens.is_empty()).then(|| Value::from(self.end_tokens.clone())));
        put("do_sample", self.temperature.map(|temperature| Value::from(temperature > 0.0)));
        put("temperature", self.temperature.filter(|value| *value > 0.0).map(decimal));
        put("top_p", self.top_p.map(decimal));
        put("top_k", self.top_k.map(Value::from));
        put("min_p", self.min_p.map(decimal));
        put("repetition_penalty", self.repetition_penalty.map(decimal));
        Value::Object(map)
    }
}

/// One id or a list of ids, ascending and without repeats.
fn token_ids(value: Option<&Value>, vocab_size: usize) -> Vec<TokenId> {
    let values = match value {
        Some(Value::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    let in_range = |id: &u64| usize::try_from(*id).is_ok_and(|id| id < vocab_size);
    let mut ids: Vec<TokenId> =
        values.iter().filter_map(Value::as_u64).filter(in_range).filter_map(|id| id.try_into().ok()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// An f32 as the short decimal that people wrote (0.9, not 0.8999999761581421).
pub(super) fn decimal(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn end_tokens_may_be_one_or_many_and_fall_back_to_the_config() {
        let read = |generation: Value, config: Value| GenerationDefaults::from_json(&generation, &config, 100);
        assert_eq!(read(json!({"eos_token_id": [7, 3, 7]}), json!({"eos_token_id": 1})).end_tokens, [3, 7]);
        assert_eq!(read(json!({"eos_token_id": 2}), json!({})).end_tokens, [2]);
        assert_eq!(read(json!({}), json!({"eos_token_id": 1, "bos_token_id": 0})).begin_token, Some(0));
        assert!(read(json!({"eos_token_id": -1}), json!({"eos_token_id": 100})).end_tokens.is_empty());
    }

    #[test]
    fn written_defaults_read_back_the_same() {
        let defaults = GenerationDefaults {
            temperature: Some(0.6),
            top_p: Some(0.9),
            top_k: Some(50),
            min_p: None,
            repetition_penalty: Some(1.1),
            end_tokens: vec![2, 5],
            begin_token: Some(1),
        };
        assert_eq!(GenerationDefaults::from_json(&defaults.to_json(), &Value::Null, 10), defaults);
        let greedy = GenerationDefaults { temperature: Some(0.0), ..defaults };
        assert_eq!(GenerationDefaults::from_json(&greedy.to_json(), &Value::Null, 10), greedy);
    }
}

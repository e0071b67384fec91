//! The fields that both endpoints share, and how they become the request that the rules check.
//!
//! Only the forms differ here: what a value may be is for [`crate::request`] to say.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{self, Unexpected, Visitor},
};
use specfleet_protocol::v1::{self, GenerateRequest};

use super::{failure::Failure, speculation::Speculation};

/// What is asked for, besides the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u32>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<TopK>,
    min_p: Option<f32>,
    presence_penalty: Option<f32>,
    frequency_penalty: Option<f32>,
    repetition_penalty: Option<f32>,
    logit_bias: Option<BTreeMap<String, f32>>,
    seed: Option<Seed>,
    min_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    stop_token_ids: Option<Vec<u32>>,
    stop: Option<OneOrMany>,
    pub(super) speculation: Option<Speculation>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl Settings {
    pub(super) fn is_stream(&self) -> bool {
        self.stream.unwrap_or(false)
    }

    /// Whether a stream ends with an account.
    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false)
    }

    /// The request, without its prompt. `max_tokens` is what the endpoint allows where the client does not say.
    pub(super) fn to_wire(&self, request_id: &str, max_tokens: Option<u32>) -> Result<GenerateRequest, Failure> {
        if self.n == Some(0) {
            return Err(Failure::invalid("n", "n is 0, allowed: at least 1"));
        }
        let sampling = v1::SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k.as_ref().map(|&TopK(top_k)| top_k),
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.iter().flatten().map(logit_bias).collect::<Result<_, _>>()?,
            min_tokens: self.min_tokens.unwrap_or(0),
            end_token_ids: Vec::new(),
        };
        Ok(GenerateRequest {
            request_id: request_id.to_owned(),
            sampling: Some(sampling),
            max_tokens: self.max_completion_tokens.or(self.max_tokens).or(max_tokens),
            stop_token_ids: self.stop_token_ids.clone().unwrap_or_default(),
            ignore_eos: self.ignore_eos.unwrap_or(false),
            seed: self.seed.as_ref().map(|&Seed(seed)| seed),
            speculation: self.speculation.as_ref().map(Speculation::to_wire),
            n: self.n.unwrap_or(1),
            stop: self.stop.as_ref().map_or_else(Vec::new, OneOrMany::to_vec),
            ..GenerateRequest::default()
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "stop is a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn to_vec(&self) -> Vec<String> {
        match self {
            Self::One(stop) => vec![stop.clone()],
            Self::Many(stops) => stops.clone(),
        }
    }
}

fn logit_bias((id, &bias): (&String, &f32)) -> Result<v1::LogitBias, Failure> {
    match id.parse() {
        Ok(token_id) => Ok(v1::LogitBias { token_id, bias }),
        Err(_) => Err(Failure::invalid("logit_bias", format!("logit_bias has the key {id:?}, allowed: token ids"))),
    }
}

/// A number or, as other servers have it, -1 for all.
#[derive(Debug)]
struct TopK(u32);

impl<'de> Deserialize<'de> for TopK {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = i64::deserialize(deserializer)?;
        let expected = "a number of tokens; 0 or -1 keeps all";
        match value {
            -1 => Ok(Self(0)),
            _ => u32::try_from(value)
                .map(Self)
                .map_err(|_| de::Error::invalid_value(Unexpected::Signed(value), &expected)),
        }
    }
}

/// Any integer of 64 bits: clients take seeds from signed and from unsigned generators.
#[derive(Debug)]
struct Seed(u64);

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SeedVisitor)
    }
}

struct SeedVisitor;

impl Visitor<'_> for SeedVisitor {
    type Value = Seed;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an integer of 64 bits")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Seed, E> {
        Ok(Seed(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Seed, E> {
        Ok(Seed(value.cast_unsigned()))
    }
}

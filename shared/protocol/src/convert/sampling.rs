//! Sampling parameters. Ranges are checked where they are used, by `specfleet_speculation::transform::Transforms::new`, so that
//! there is one list of what is allowed.

use specfleet_speculation::transform::SamplingParams;

use crate::v1;

/// Reads sampling parameters; absent numbers come from `defaults`, lists and `min_tokens` from the message alone.
pub fn sampling_params(wire: v1::SamplingParams, defaults: &SamplingParams) -> SamplingParams {
    SamplingParams {
        temperature: wire.temperature.unwrap_or(defaults.temperature),
        top_p: wire.top_p.unwrap_or(defaults.top_p),
        top_k: wire.top_k.unwrap_or(defaults.top_k),
        min_p: wire.min_p.unwrap_or(defaults.min_p),
        repetition_penalty: wire.repetition_penalty.unwrap_or(defaults.repetition_penalty),
        presence_penalty: wire.presence_penalty.unwrap_or(defaults.presence_penalty),
        frequency_penalty: wire.frequency_penalty.unwrap_or(defaults.frequency_penalty),
        logit_bias: wire.logit_bias.into_iter().map(|entry| (entry.token_id, entry.bias)).collect(),
        min_tokens: wire.min_tokens,
        end_tokens: wire.end_token_ids,
    }
}

impl From<&SamplingParams> for v1::SamplingParams {
    /// With every number present: the receiver has nothing to fill in.
    fn from(params: &SamplingParams) -> Self {
        Self {
            temperature: Some(params.temperature),
            top_p: Some(params.top_p),
            top_k: Some(params.top_k),
            min_p: Some(params.min_p),
            repetition_penalty: Some(params.repetition_penalty),
            presence_penalty: Some(params.presence_penalty),
            frequency_penalty: Some(params.frequency_penalty),
            logit_bias: params.logit_bias.iter().map(|&(token_id, bias)| v1::LogitBias { token_id, bias }).collect(),
            min_tokens: params.min_tokens,
            end_token_ids: params.end_tokens.clone(),
        }
    }
}

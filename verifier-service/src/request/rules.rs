//! From a message to a [`Request`], or to the list of everything that is wrong with it.

use std::time::{Duration, Instant};

use specfleet_grammar::Grammars;
use specfleet_model::{chat_template::ChatTemplate, checkpoint::GenerationDefaults, tokenizer::Tokenizer};
use specfleet_protocol::{
    convert::{acceptance_rule, sampling_params},
    v1,
};
use specfleet_speculation::{
    TokenId,
    propose::Rule,
    random::RequestSeed,
    transform::{SamplingParams, Transforms},
};

use super::{Deadline, Drafting, OutputGrammar, Request};
use crate::error::{Error, Violation};

mod grammar;
mod length;
mod passed_on;
mod prompt;

pub(crate) use passed_on::MAX_REQUEST_ID_BYTES;
pub(crate) use prompt::{Frame, MAX_TOOLS};

/// The most continuations of one prompt, whatever the server has room for: what clients of chat APIs are used to.
pub(crate) const MAX_CHOICES: usize = 128;

/// As many as clients of chat APIs are used to.
const MAX_TOP_LOGPROBS: usize = 20;
const MAX_STOPS: usize = 64;
const MAX_STOP_BYTES: usize = 1024;

/// What requests are measured against.
pub(crate) struct Rules {
    pub(crate) tokenizer: Tokenizer,
    pub(crate) chat_template: Option<ChatTemplate>,
    pub(crate) generation: GenerationDefaults,
    pub(crate) n_vocab: usize,
    /// Positions that a sequence can have: the model's context, or the KV memory if that is smaller.
    pub(crate) context_length: usize,
    pub(crate) draft_length: usize,
    pub(crate) max_draft_length: usize,
    pub(crate) draft_wait: Duration,
    /// Continuations of one prompt: no more than there are places, or a request would be refused for ever.
    pub(crate) max_choices: usize,
    /// Or why this model cannot be held to a form.
    pub(crate) grammars: Result<Grammars, specfleet_grammar::Error>,
}

impl Rules {
    /// Checks `wire`, which arrived `now`.
    pub(crate) fn check(
        &self,
        wire: v1::GenerateRequest,
        now: Instant,
        deadline: Option<Deadline>,
    ) -> Result<Request, Error> {
        let mut violations = Vec::new();
        passed_on::check(&wire, &mut violations);
        grammar::check_companions(&wire, &mut violations);
        let prompt = self.prompt(wire.prompt, Frame::default(), &mut violations);
        self.check_ids("stop_token_ids", &wire.stop_token_ids, &mut violations);
        self.check_ids("spelled_token_ids", &wire.spelled_token_ids, &mut violations);
        check_stops(&wire.stop, &mut violations);
        let model_ends = self.model_end_tokens();
        let sampling = self.sampling(wire.sampling.unwrap_or_default(), &model_ends, &wire.stop_token_ids);
        let transforms = Transforms::new(sampling, self.n_vocab).map_err(|invalid| {
            violations.extend((invalid.fields.into_iter()).map(|field| {
                let description = format!("is {}, allowed: {}", field.value, field.allowed);
                Violation::new(format!("sampling.{}", field.field), description)
            }));
        });
        let n_top_logprobs = wire.top_logprobs.map(|n| n as usize);
        if let Some(n) = n_top_logprobs.filter(|&n| n > MAX_TOP_LOGPROBS) {
            violations.push(Violation::new("top_logprobs", format!("is {n}, allowed: at most {MAX_TOP_LOGPROBS}")));
        }
        if wire.prompt_logprobs && n_top_logprobs.is_none() {
            violations.push(Violation::new("prompt_logprobs", "is set, but top_logprobs is not; 0 will do"));
        }
        let max_tokens = wire.max_tokens.map_or(usize::MAX, |max_tokens| max_tokens as usize);
        if max_tokens == 0 {
            violations.push(Violation::new("max_tokens", "is 0, allowed: at least 1"));
        }
        let n_choices = wire.n.max(1);
        if n_choices as usize > self.max_choices {
            violations.push(Violation::new("n", format!("is {n_choices}, allowed: at most {}", self.max_choices)));
        }
        let speculation = wire.speculation.unwrap_or_default();
        let rule = acceptance_rule("speculation.rule", speculation.rule).unwrap_or_else(|error| {
            violations.push(Violation::new(error.field(), error.to_string()));
            None
        });
        let drafting = self.drafting(speculation, &mut violations);
        // The most work, for requests that nothing else is wrong with.
        let grammar = wire.grammar.filter(|_| violations.is_empty());
        let grammar = grammar.map(|grammar| self.grammar(grammar, n_choices, &mut violations)).transpose()?.flatten();

        let (Ok(transforms), true) = (transforms, violations.is_empty()) else {
            return Err(Error::Invalid(violations));
        };
        let (n_tokens, context_length) = (prompt.len(), self.context_length);
        if n_tokens >= context_length {
            return Err(Error::ContextLength { n_tokens, context_length });
        }
        let mut end_tokens = if wire.ignore_eos { Vec::new() } else { model_ends };
        end_tokens.extend(&wire.stop_token_ids);
        let rule_left_open = if wire.seed.is_some() { Rule::DraftInvariant } else { Rule::Standard };
        Ok(Request {
            id: if wire.request_id.is_empty() { uuid::Uuid::new_v4().to_string() } else { wire.request_id },
            prompt,
            transforms,
            grammar,
            max_tokens: max_tokens.min(context_length - n_tokens),
            end_tokens,
            stops: wire.stop.into(),
            spelled: wire.spelled_token_ids.into(),
            n_top_logprobs,
            prompt_logprobs: wire.prompt_logprobs,
            n_choices,
            seed: wire.seed.map_or_else(RequestSeed::from_entropy, RequestSeed::from_u64),
            is_unrepeatable: wire.seed.is_none(),
            rule: rule.unwrap_or(rule_left_open),
            drafting,
            arrived: now,
            deadline,
        })
    }

    /// Checks ids that are only looked at.
    pub(crate) fn check_tokens(&self, field: &str, ids: &[TokenId]) -> Result<(), Error> {
        let mut violations = Vec::new();
        self.check_ids(field, ids, &mut violations);
        if violations.is_empty() { Ok(()) } else { Err(Error::Invalid(violations)) }
    }

    /// One violation for a list, however many ids in it are wrong: a prompt can have a hundred thousand.
    fn check_ids(&self, field: &str, ids: &[TokenId], violations: &mut Vec<Violation>) {
        if let Some(index) = ids.iter().position(|&id| id as usize >= self.n_vocab) {
            let description = format!("holds {} at index {index}, allowed: ids below {}", ids[index], self.n_vocab);
            violations.push(Violation::new(field, description));
        }
    }

    fn model_end_tokens(&self) -> Vec<TokenId> {
        let mut end_tokens = self.tokenizer.end_tokens().to_vec();
        end_tokens.extend(&self.generation.end_tokens);
        sorted(end_tokens)
    }

    fn sampling(&self, wire: v1::SamplingParams, model_ends: &[TokenId], stops: &[TokenId]) -> SamplingParams {
        let generation = &self.generation;
        let neutral = SamplingParams::default();
        let defaults = SamplingParams {
            temperature: generation.temperature.unwrap_or(neutral.temperature),
            top_p: generation.top_p.unwrap_or(neutral.top_p),
            top_k: generation.top_k.unwrap_or(neutral.top_k),
            min_p: generation.min_p.unwrap_or(neutral.min_p),
            repetition_penalty: generation.repetition_penalty.unwrap_or(neutral.repetition_penalty),
            ..neutral
        };
        let mut sampling = sampling_params(wire, &defaults);
        // Ids that are out of range are reported under their own field.
        let known_stops = stops.iter().filter(|&&id| (id as usize) < self.n_vocab);
        sampling.end_tokens.extend(model_ends.iter().chain(known_stops));
        sampling.end_tokens = sorted(sampling.end_tokens);
        sampling
    }

    fn drafting(&self, options: v1::SpeculationOptions, violations: &mut Vec<Violation>) -> Drafting {
        let asked = options.max_draft_length.map(|length| length as usize);
        if let Some(length) = asked.filter(|&length| length > self.max_draft_length) {
            let description = format!("is {length}, allowed: from 0 to {}", self.max_draft_length);
            violations.push(Violation::new("speculation.max_draft_length", description));
        }
        if options.require_pin && options.pin.is_empty() {
            let description = "is set, but speculation.pin names no version; give one or leave require_pin out";
            violations.push(Violation::new("speculation.require_pin", description));
        }
        let wait = options.max_wait_micros.map(|micros| Duration::from_micros(micros.into()));
        Drafting {
            draft_length: if options.off { 0 } else { asked.unwrap_or(self.draft_length) },
            wait: wait.unwrap_or(self.draft_wait),
            require_pin: options.require_pin,
            pin: Some(options.pin).filter(|pin| !pin.is_empty()),
        }
    }
}

/// Each token's text is compared with all stop strings, and the longest one bounds what is held back.
fn check_stops(stops: &[String], violations: &mut Vec<Violation>) {
    if stops.len() > MAX_STOPS {
        violations.push(Violation::new("stop", format!("has {} entries, allowed: at most {MAX_STOPS}", stops.len())));
    }
    let is_bad = |stop: &&String| stop.is_empty() || stop.len() > MAX_STOP_BYTES;
    if let Some(stop) = stops.iter().find(is_bad) {
        let description = format!("has an entry of {} bytes, allowed: from 1 to {MAX_STOP_BYTES}", stop.len());
        violations.push(Violation::new("stop", description));
    }
}

fn sorted(mut ids: Vec<TokenId>) -> Vec<TokenId> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests;

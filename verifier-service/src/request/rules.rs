//! From a message to a [`Request`], or to the list of everything that is wrong with it.

use std::time::{Duration, Instant};

use specfleet_model::{
    chat_template::{ChatMessage, ChatTemplate},
    checkpoint::GenerationDefaults,
    tokenizer::Tokenizer,
};
use specfleet_protocol::{
    convert::{acceptance_rule, sampling_params},
    v1::{self, generate_request::Prompt},
};
use specfleet_speculation::{
    TokenId,
    propose::Rule,
    random::RequestSeed,
    transform::{SamplingParams, Transforms},
};

use super::{Deadline, Drafting, Request};
use crate::error::{Error, Violation};

mod passed_on;

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
        let prompt = self.prompt(wire.prompt, &mut violations);
        self.check_ids("stop_token_ids", &wire.stop_token_ids, &mut violations);
        let model_ends = self.model_end_tokens();
        let sampling = self.sampling(wire.sampling.unwrap_or_default(), &model_ends, &wire.stop_token_ids);
        let transforms = Transforms::new(sampling, self.n_vocab).map_err(|invalid| {
            violations.extend((invalid.fields.into_iter()).map(|field| {
                let description = format!("is {}, allowed: {}", field.value, field.allowed);
                Violation::new(format!("sampling.{}", field.field), description)
            }));
        });
        let max_tokens = wire.max_tokens.map_or(usize::MAX, |max_tokens| max_tokens as usize);
        if max_tokens == 0 {
            violations.push(Violation::new("max_tokens", "is 0, allowed: at least 1"));
        }
        let speculation = wire.speculation.unwrap_or_default();
        let rule = acceptance_rule("speculation.rule", speculation.rule).unwrap_or_else(|error| {
            violations.push(Violation::new(error.field(), error.to_string()));
            None
        });
        let drafting = self.drafting(speculation, &mut violations);

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
            max_tokens: max_tokens.min(context_length - n_tokens),
            end_tokens,
            seed: wire.seed.map_or_else(RequestSeed::from_entropy, RequestSeed::from_u64),
            rule: rule.unwrap_or(rule_left_open),
            drafting,
            arrived: now,
            deadline,
        })
    }

    fn prompt(&self, prompt: Option<Prompt>, violations: &mut Vec<Violation>) -> Vec<TokenId> {
        let (field, tokens) = match prompt {
            None => {
                violations.push(Violation::new("prompt", "is missing: give text, token_ids or chat"));
                return Vec::new();
            }
            Some(Prompt::Text(text)) => ("text", self.encode(&text, true)),
            Some(Prompt::TokenIds(v1::TokenIds { ids })) => {
                self.check_ids("token_ids.ids", &ids, violations);
                ("token_ids.ids", Ok(ids))
            }
            Some(Prompt::Chat(v1::ChatPrompt { messages })) => ("chat.messages", self.render(messages)),
        };
        match tokens {
            Ok(tokens) if tokens.is_empty() => {
                violations.push(Violation::new(field, "holds no token: a prompt needs at least one"));
            }
            Ok(tokens) => return tokens,
            Err(description) => violations.push(Violation::new(field, description)),
        }
        Vec::new()
    }

    fn encode(&self, text: &str, add_special: bool) -> Result<Vec<TokenId>, String> {
        self.tokenizer.encode(text, add_special).map_err(|error| format!("cannot be tokenised: {error}"))
    }

    fn render(&self, messages: Vec<v1::ChatMessage>) -> Result<Vec<TokenId>, String> {
        let template = self.chat_template.as_ref();
        let template = template.ok_or("cannot be used: this model has no chat template; give text or token_ids")?;
        if messages.is_empty() {
            return Err("is empty: a conversation needs at least one message".to_owned());
        }
        let to_message = |message: v1::ChatMessage| ChatMessage { role: message.role, content: message.content };
        let messages: Vec<ChatMessage> = messages.into_iter().map(to_message).collect();
        let text = template.render(&messages, true).map_err(|error| format!("cannot be rendered: {error}"))?;
        // The template has written the begin token where it wants one.
        self.encode(&text, false)
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

fn sorted(mut ids: Vec<TokenId>) -> Vec<TokenId> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests;

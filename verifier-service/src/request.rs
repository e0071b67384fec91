//! What a client asked for, checked once, so that nothing behind this file has to check again.
//!
//! Every mistake in a request is reported in one answer, each with its field, its value and what is allowed. What the
//! request leaves open is filled in here too:
//!
//! | left open | becomes |
//! |---|---|
//! | a sampling parameter | the checkpoint's generation config, else the value that changes nothing (temperature 1) |
//! | `max_tokens` | what the context has room for; a larger number is cut to that |
//! | `n` | one continuation |
//! | `seed` | random, and so is the text |
//! | `speculation.rule` | draft-invariant with a seed, so that the seed alone fixes the text; standard without |
//! | `speculation.max_draft_length`, `max_wait_micros` | the server's settings |
//!
//! A grammar is compiled here, and where the form is complete the model's end tokens may end it: not the request's stop
//! tokens, which end a continuation only where the grammar allows them as text. Stop strings may end it before it is complete.
//!
//! `sampling.end_token_ids` of the request are banned together with the model's end tokens and the request's stop tokens
//! while `min_tokens` lasts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_grammar::{Form, Matcher};
use specfleet_speculation::{TokenId, propose::Rule, random::RequestSeed, transform::Transforms};

mod rules;

pub(crate) use rules::{Frame, MAX_CHOICES, MAX_REQUEST_ID_BYTES, MAX_TOOLS, Rules};

/// A request that can be served.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    /// At least one token, and room in the context for another.
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) transforms: Transforms,
    pub(crate) grammar: Option<OutputGrammar>,
    /// At least 1, and no more than the context has room for.
    pub(crate) max_tokens: usize,
    /// Tokens after which the request is finished.
    pub(crate) end_tokens: Vec<TokenId>,
    /// Texts before which the text ends, none of them empty.
    pub(crate) stops: Arc<[String]>,
    /// Special tokens whose names stand in the text.
    pub(crate) spelled: Arc<[TokenId]>,
    /// How many of the likeliest tokens are wanted beside each token, if log-probabilities are wanted at all.
    pub(crate) n_top_logprobs: Option<usize>,
    /// Whether the prompt's tokens are to be scored too.
    pub(crate) prompt_logprobs: bool,
    /// Continuations of the prompt; at least 1.
    pub(crate) n_choices: u32,
    pub(crate) seed: RequestSeed,
    /// Nobody chose the seed, so no draft of it can be seen again: what it shows of a draft is evidence.
    pub(crate) is_unrepeatable: bool,
    pub(crate) rule: Rule,
    pub(crate) drafting: Drafting,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Deadline>,
}

impl Request {
    /// The seed of one continuation. The first one has the request's own, so that it is what a request for a single one
    /// gives; from it the others are derived, one-way, so that they are independent of it and of each other.
    pub(crate) fn seed_of(&self, choice_index: u32) -> RequestSeed {
        match choice_index {
            0 => self.seed.clone(),
            index => self.seed.child(index),
        }
    }
}

/// The form that each continuation has.
#[derive(Debug)]
pub(crate) struct OutputGrammar {
    /// For drafts.
    pub(crate) form: Form,
    /// Where continuations begin.
    pub(crate) start: Matcher,
}

/// How a request wants to be drafted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drafting {
    /// Draft tokens a round; 0 is plain decoding.
    pub(crate) draft_length: usize,
    /// How long a round may wait for its proposal.
    pub(crate) wait: Duration,
    /// The version id that proposals must come from.
    pub(crate) pin: Option<String>,
    /// Refuse the request if no draft of the pinned version is ready.
    pub(crate) require_pin: bool,
}

/// When a request must be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// What the client allowed, for the message.
    pub(crate) allowed: Duration,
}

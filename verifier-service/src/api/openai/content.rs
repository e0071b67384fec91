//! From tokens to what an answer holds of them: text, and scores where they are wanted.

use std::ops::Range;

use specfleet_model::tokenizer::{Detokenizer, Tokenizer};

use super::logprobs::Scored;
use crate::output::{OutputToken, PromptToken};

/// A part of a continuation.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) text: String,
    /// Its tokens, if they are wanted with their scores.
    pub(super) tokens: Option<Vec<Scored>>,
    /// Characters of the continuation's text before it.
    pub(super) offset: usize,
}

/// What is wanted of each continuation.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) tokenizer: Tokenizer,
    pub(super) with_logprobs: bool,
    /// Continuations of each prompt.
    pub(super) n_of_prompt: usize,
    pub(super) n_choices: usize,
}

impl Form {
    /// Nothing yet of a continuation.
    pub(super) fn content(&self) -> Content {
        Content { tokens: self.with_logprobs.then(Vec::new), ..Content::default() }
    }

    /// The continuations of the prompt that `choice` continues.
    pub(super) fn siblings(&self, choice: usize) -> Range<usize> {
        let first = choice - choice % self.n_of_prompt;
        first..first + self.n_of_prompt
    }

    /// A prompt's tokens, with the text that each completes.
    pub(super) fn scored_prompt(&self, prompt: &[PromptToken]) -> Vec<Scored> {
        let mut detokenizer = Detokenizer::new();
        let scored = |PromptToken { token, score }: &PromptToken| {
            Scored::new(*token, detokenizer.push(&self.tokenizer, *token), score.as_ref(), &self.tokenizer)
        };
        prompt.iter().map(scored).collect()
    }

    /// Adds the tokens of a round.
    pub(super) fn extend(&self, content: &mut Content, tokens: Vec<OutputToken>) {
        for token in tokens {
            content.text.push_str(&token.text);
            if let Some(scored) = &mut content.tokens {
                scored.extend(Scored::of(&token, &self.tokenizer));
            }
        }
    }
}

impl Content {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tokens.as_ref().is_none_or(Vec::is_empty)
    }
}

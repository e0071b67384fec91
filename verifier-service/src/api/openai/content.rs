//! From tokens to what an answer holds of them: text, and scores where they are wanted.

use std::{ops::Range, sync::Arc};

use specfleet_model::tokenizer::{Detokenizer, Tokenizer};
use specfleet_speculation::TokenId;

use super::{
    logprobs::{Scored, ScoredTokens},
    parts::{Parts, Sought, Splitter},
};
use crate::output::{OutputToken, PromptToken};

/// A part of a continuation.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) parts: Parts,
    /// Its tokens, if they are wanted with their scores.
    pub(super) tokens: Option<ScoredTokens>,
    /// Characters of the continuation's text before that of its own tokens.
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
    /// What is to be told from the text.
    pub(super) sought: Option<Arc<Sought>>,
}

/// Reads the tokens of one continuation.
#[derive(Debug)]
pub(super) struct Reader(Option<Splitter>);

impl Form {
    /// Nothing yet of a continuation.
    pub(super) fn content(&self) -> Content {
        Content { tokens: self.with_logprobs.then(ScoredTokens::default), ..Content::default() }
    }

    /// The continuations of the prompt that `choice` continues.
    pub(super) fn siblings(&self, choice: usize) -> Range<usize> {
        let first = choice - choice % self.n_of_prompt;
        first..first + self.n_of_prompt
    }

    /// A prompt's tokens, each with the characters of the prompt's `text` that it stands for.
    pub(super) fn scored_prompt(&self, prompt: &[PromptToken], text: &str) -> Arc<[Scored]> {
        let (mut detokenizer, mut rest) = (Detokenizer::new(), text.chars());
        let scored = |PromptToken { token, score }: &PromptToken| {
            let shown = self.shown(*token, &mut detokenizer, rest.as_str());
            let n_chars = rest.by_ref().take(shown.chars().count()).count();
            Scored::new(*token, n_chars, score.as_ref(), &self.tokenizer)
        };
        prompt.iter().map(scored).collect()
    }

    /// What a prompt's next token is of the `rest` of its text.
    fn shown(&self, token: TokenId, detokenizer: &mut Detokenizer, rest: &str) -> String {
        let text = detokenizer.push(&self.tokenizer, token);
        if self.tokenizer.is_special(token) {
            // No text, unless the client wrote its name.
            let name = String::from_utf8_lossy(self.tokenizer.spelling(token).unwrap_or_default());
            return if rest.starts_with(&*name) { name.into_owned() } else { text };
        }
        // Some tokenizers put a blank before a text.
        let without_blank = text.trim_start();
        if !rest.starts_with(&text) && rest.starts_with(without_blank) { without_blank.to_owned() } else { text }
    }

    /// Characters of an echoed prompt, for those who want to know where tokens begin.
    pub(super) fn n_echoed(&self, echo: Option<&str>) -> usize {
        echo.filter(|_| self.with_logprobs).map_or(0, |echo| echo.chars().count())
    }

    /// One for each continuation.
    pub(super) fn readers(&self) -> Vec<Reader> {
        (0..self.n_choices).map(|_| Reader(self.sought.clone().map(Splitter::new))).collect()
    }

    /// Adds the tokens of a round.
    pub(super) fn extend(&self, reader: &mut Reader, content: &mut Content, tokens: Vec<OutputToken>) {
        for token in tokens {
            match &mut reader.0 {
                Some(splitter) => content.parts.extend(splitter.push(&token.text)),
                None => content.parts.text.push_str(&token.text),
            }
            if let Some(scored) = &mut content.tokens {
                scored.push(&token, &self.tokenizer);
            }
        }
    }
}

impl Reader {
    /// Adds what was held back: the continuation is over.
    pub(super) fn finish(&mut self, content: &mut Content) {
        if let Some(splitter) = &mut self.0 {
            content.parts.extend(splitter.finish());
        }
    }

    /// Tokens that were thoughts.
    pub(super) fn n_thought(&self) -> usize {
        self.0.as_ref().map_or(0, Splitter::n_thought)
    }

    /// Whether the continuation calls functions, and none of the calls was cut short.
    pub(super) fn has_called(&self) -> bool {
        self.0.as_ref().is_some_and(Splitter::has_called)
    }
}

impl Content {
    /// Text and nothing else.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { parts: Parts { text: text.into(), ..Parts::default() }, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.tokens.as_ref().is_none_or(ScoredTokens::is_empty)
    }

    /// Has the tokens of its prompt before its own.
    pub(super) fn put_before(&mut self, prompt: &Arc<[Scored]>) {
        if let Some(tokens) = &mut self.tokens {
            tokens.put_before(prompt);
        }
    }
}

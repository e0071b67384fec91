//! How the model writes what is not plain text: calls of functions, and thoughts before an answer.
//!
//! Models agree about neither. The chat template shows the form that a model is tuned on, since it writes the calls of
//! earlier turns, and the vocabulary shows which tags are tokens of their own. What they do not show can be set.
//!
//! | calls | looks like | recognised by |
//! |---|---|---|
//! | Hermes, Qwen | `<tool_call>{"name": "f", "arguments": {...}}</tool_call>`, any number, between texts | the tag in the template; or a template that has no place for tools, for which they are described in this form |
//! | Llama 3 | `{"name": "f", "parameters": {...}}`, perhaps after `<\|python_tag\|>`, one, and no text | that tag in the vocabulary or the template |

use std::fmt;

use clap::ValueEnum;
use specfleet_model::{
    chat_template::{ChatMessage, ChatTemplate},
    tokenizer::Tokenizer,
};
use specfleet_speculation::TokenId;

const OPEN_CALL: &str = "<tool_call>";
const CLOSE_CALL: &str = "</tool_call>";
const PYTHON_TAG: &str = "<|python_tag|>";
const OPEN_THOUGHT: &str = "<think>";
const CLOSE_THOUGHT: &str = "</think>";

/// In which form the model calls functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ToolCalls {
    /// What the chat template and the vocabulary show.
    #[default]
    Auto,
    /// `<tool_call>` and `</tool_call>` around JSON, as Hermes and Qwen write them.
    Hermes,
    /// JSON and nothing else, as Llama 3 writes it.
    Llama,
    /// In none: requests with tools are refused.
    None,
}

/// How the model thinks before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Reasoning {
    /// What the chat template and the vocabulary show.
    #[default]
    Auto,
    /// Between `<think>` and `</think>`.
    Think,
    /// Not so that it could be told from the answer.
    None,
}

/// A mark in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) text: &'static str,
    /// Its id, if the vocabulary has it as a special token. Otherwise it is text like any other.
    pub(crate) special: Option<TokenId>,
}

/// The form of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallForm {
    Hermes {
        open: Tag,
        close: Tag,
    },
    Llama {
        /// May stand before a call; absent if the vocabulary has no such token.
        tag: Option<Tag>,
    },
}

/// The form of thoughts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thoughts {
    pub(crate) open: Tag,
    pub(crate) close: Tag,
    /// The template has opened the thoughts already when the answer begins.
    pub(crate) are_open: bool,
}

/// What there is to be told from plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) calls: Option<CallForm>,
    pub(crate) thoughts: Option<Thoughts>,
}

impl Dialect {
    /// As set, or as the model shows it.
    pub(crate) fn of_model(
        tool_calls: ToolCalls,
        reasoning: Reasoning,
        tokenizer: &Tokenizer,
        template: Option<&ChatTemplate>,
    ) -> Self {
        let vocabulary = Vocabulary(tokenizer);
        let mentions = |text: &str| template.is_some_and(|template| template.source().contains(text));
        let python_tag = vocabulary.tag(PYTHON_TAG);
        let calls = match tool_calls {
            ToolCalls::Hermes => Some(vocabulary.hermes()),
            ToolCalls::Llama => Some(CallForm::Llama { tag: python_tag.special.map(|_| python_tag) }),
            ToolCalls::None => None,
            ToolCalls::Auto if mentions(OPEN_CALL) || template.is_none_or(|template| !template.reads_tools()) => {
                Some(vocabulary.hermes())
            }
            ToolCalls::Auto if python_tag.special.is_some() => Some(CallForm::Llama { tag: Some(python_tag) }),
            ToolCalls::Auto if mentions(PYTHON_TAG) => Some(CallForm::Llama { tag: None }),
            ToolCalls::Auto => None,
        };
        let thinks = match reasoning {
            Reasoning::Think => true,
            Reasoning::None => false,
            Reasoning::Auto => mentions(CLOSE_THOUGHT) || vocabulary.has_token(OPEN_THOUGHT),
        };
        let thoughts = thinks.then(|| Thoughts {
            open: vocabulary.tag(OPEN_THOUGHT),
            close: vocabulary.tag(CLOSE_THOUGHT),
            are_open: template.is_some_and(opens_thoughts),
        });
        Self { calls, thoughts }
    }

    /// Special tokens that have to stand in the text, so that it can be taken apart.
    pub(crate) fn special_tokens(&self) -> Vec<TokenId> {
        let thoughts = self.thoughts.iter().flat_map(|Thoughts { open, close, .. }| [open, close]);
        let calls: Vec<&Tag> = match &self.calls {
            Some(CallForm::Hermes { open, close }) => vec![open, close],
            Some(CallForm::Llama { tag }) => tag.iter().collect(),
            None => Vec::new(),
        };
        thoughts.chain(calls).filter_map(|tag| tag.special).collect()
    }
}

impl CallForm {
    /// What the arguments are called.
    pub(crate) fn arguments_key(&self) -> &'static str {
        match self {
            Self::Hermes { .. } => "arguments",
            Self::Llama { .. } => "parameters",
        }
    }
}

/// For the log.
impl fmt::Display for Dialect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = match self.calls {
            Some(CallForm::Hermes { .. }) => "hermes",
            Some(CallForm::Llama { .. }) => "llama",
            None => "none",
        };
        let thoughts = if self.thoughts.is_some() { "think" } else { "none" };
        write!(formatter, "tool calls: {calls}, reasoning: {thoughts}")
    }
}

struct Vocabulary<'a>(&'a Tokenizer);

impl Vocabulary<'_> {
    fn hermes(&self) -> CallForm {
        CallForm::Hermes { open: self.tag(OPEN_CALL), close: self.tag(CLOSE_CALL) }
    }

    fn tag(&self, text: &'static str) -> Tag {
        Tag { text, special: self.ids().find(|&id| self.0.is_special(id) && self.spells(id, text)) }
    }

    fn has_token(&self, text: &str) -> bool {
        self.ids().any(|id| self.spells(id, text))
    }

    fn spells(&self, id: TokenId, text: &str) -> bool {
        self.0.spelling(id) == Some(text.as_bytes())
    }

    fn ids(&self) -> impl Iterator<Item = TokenId> {
        0..self.0.vocab_size() as TokenId
    }
}

/// Whether an answer begins inside the thoughts, whatever the conversation is.
fn opens_thoughts(template: &ChatTemplate) -> bool {
    let rendered = template.render(&[ChatMessage::new("user", "Hi")], true);
    rendered.is_ok_and(|text| text.trim_end().ends_with(OPEN_THOUGHT))
}

#[cfg(test)]
mod tests;

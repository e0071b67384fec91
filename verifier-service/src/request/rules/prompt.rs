//! From a prompt in any form to ids.

use specfleet_model::chat_template::ChatMessage;
use specfleet_protocol::v1::{self, generate_request::Prompt};
use specfleet_speculation::TokenId;

use super::Rules;
use crate::error::{Error, Violation};

/// What is put around a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The ids that the model expects around a text: a begin token, usually.
    pub(crate) special_tokens: bool,
    /// What a chat ends with so that the assistant's answer follows.
    pub(crate) generation_prompt: bool,
}

impl Default for Frame {
    /// As a prompt that is continued needs it.
    fn default() -> Self {
        Self { special_tokens: true, generation_prompt: true }
    }
}

impl Rules {
    /// The ids of a prompt, at least one.
    ///
    /// # Errors
    /// One violation.
    pub(crate) fn tokens(&self, prompt: Option<Prompt>, frame: Frame) -> Result<Vec<TokenId>, Error> {
        let mut violations = Vec::new();
        let tokens = self.prompt(prompt, frame, &mut violations);
        if violations.is_empty() { Ok(tokens) } else { Err(Error::Invalid(violations)) }
    }

    pub(super) fn prompt(&self, prompt: Option<Prompt>, frame: Frame, violations: &mut Vec<Violation>) -> Vec<TokenId> {
        let (field, tokens) = match prompt {
            None => {
                violations.push(Violation::new("prompt", "is missing: give text, token_ids or chat"));
                return Vec::new();
            }
            Some(Prompt::Text(text)) => ("text", self.encode(&text, frame.special_tokens)),
            Some(Prompt::TokenIds(v1::TokenIds { ids })) => {
                self.check_ids("token_ids.ids", &ids, violations);
                ("token_ids.ids", Ok(ids))
            }
            Some(Prompt::Chat(v1::ChatPrompt { messages })) => ("chat.messages", self.render(messages, frame)),
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

    fn encode(&self, text: &str, special_tokens: bool) -> Result<Vec<TokenId>, String> {
        let ids =
            self.tokenizer.encode(text, special_tokens).map_err(|error| format!("cannot be tokenised: {error}"))?;
        // A tokenizer may know tokens that were added when the model's table was made already.
        match ids.iter().find(|&&id| id as usize >= self.n_vocab) {
            Some(id) => Err(format!("holds token {id}, but the model knows ids below {}", self.n_vocab)),
            None => Ok(ids),
        }
    }

    fn render(&self, messages: Vec<v1::ChatMessage>, frame: Frame) -> Result<Vec<TokenId>, String> {
        let template = self.chat_template.as_ref();
        let template = template.ok_or("cannot be used: this model has no chat template; give text or token_ids")?;
        if messages.is_empty() {
            return Err("is empty: a conversation needs at least one message".to_owned());
        }
        let to_message = |message: v1::ChatMessage| ChatMessage { role: message.role, content: message.content };
        let messages: Vec<ChatMessage> = messages.into_iter().map(to_message).collect();
        let text = template
            .render(&messages, frame.generation_prompt)
            .map_err(|error| format!("cannot be rendered: {error}"))?;
        // The template has written the begin token where it wants one.
        self.encode(&text, false)
    }
}

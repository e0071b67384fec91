//! From a prompt in any form to ids.

use serde_json::Value;
use specfleet_model::chat_template::{ChatMessage, ToolCall};
use specfleet_protocol::v1::{self, generate_request::Prompt};
use specfleet_speculation::TokenId;

use super::Rules;
use crate::error::{Error, Violation};

/// As many as clients of chat APIs are used to.
pub(crate) const MAX_TOOLS: usize = 128;
/// Templates take them apart key by key. What people describe in this length no model keeps apart.
const MAX_TOOLS_BYTES: usize = 256 << 10;

/// What is put around a prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The ids that the model expects around a text: a begin token, usually.
    pub(crate) special_tokens: bool,
    /// What a chat ends with so that the assistant's answer follows.
    pub(crate) generation_prompt: bool,
    /// Every id is wanted, even of a text that could not be continued. Without, one that is much too long is read to where
    /// that is certain.
    pub(crate) whole: bool,
}

impl Default for Frame {
    /// As a prompt that is continued needs it.
    fn default() -> Self {
        Self { special_tokens: true, generation_prompt: true, whole: false }
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
            Some(Prompt::Text(text)) => ("text", self.encode(&text, frame.special_tokens, frame.whole)),
            Some(Prompt::TokenIds(v1::TokenIds { ids })) => {
                self.check_ids("token_ids.ids", &ids, violations);
                ("token_ids.ids", Ok(ids))
            }
            Some(Prompt::Chat(chat)) => match read_chat(chat) {
                Ok((messages, tools)) => ("chat.messages", self.render(&messages, &tools, frame)),
                Err(violation) => {
                    violations.push(violation);
                    return Vec::new();
                }
            },
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

    fn encode(&self, text: &str, special_tokens: bool, whole: bool) -> Result<Vec<TokenId>, String> {
        let ids = self.ids_of(text, special_tokens, whole).map_err(|error| format!("cannot be tokenised: {error}"))?;
        // A tokenizer may know tokens that were added when the model's table was made already.
        match ids.iter().find(|&&id| id as usize >= self.n_vocab) {
            Some(id) => Err(format!("holds token {id}, but the model knows ids below {}", self.n_vocab)),
            None => Ok(ids),
        }
    }

    fn render(&self, messages: &[ChatMessage], tools: &[Value], frame: Frame) -> Result<Vec<TokenId>, String> {
        let template = self.chat_template.as_ref();
        let template = template.ok_or("cannot be used: this model has no chat template; give text or token_ids")?;
        if messages.is_empty() {
            return Err("is empty: a conversation needs at least one message".to_owned());
        }
        let text = template
            .render_with_tools(messages, tools, frame.generation_prompt)
            .map_err(|error| format!("cannot be rendered: {error}"))?;
        // The template has written the begin token where it wants one.
        self.encode(&text, false, frame.whole)
    }
}

/// A conversation and its tools, for the template.
fn read_chat(chat: v1::ChatPrompt) -> Result<(Vec<ChatMessage>, Vec<Value>), Violation> {
    let (n_tools, n_bytes) = (chat.tools.len(), chat.tools.iter().map(String::len).sum::<usize>());
    if n_tools > MAX_TOOLS || n_bytes > MAX_TOOLS_BYTES {
        let description = format!(
            "has {n_tools} entries of {n_bytes} bytes, allowed: at most {MAX_TOOLS} of {MAX_TOOLS_BYTES} bytes together"
        );
        return Err(Violation::new("chat.tools", description));
    }
    let messages = (chat.messages.into_iter().enumerate()).map(|(index, message)| read_message(index, message));
    let tools = (chat.tools.iter().enumerate()).map(|(index, tool)| object(tool, || format!("chat.tools[{index}]")));
    Ok((messages.collect::<Result<_, _>>()?, tools.collect::<Result<_, _>>()?))
}

fn read_message(message_index: usize, message: v1::ChatMessage) -> Result<ChatMessage, Violation> {
    let v1::ChatMessage { role, content, tool_calls, tool_call_id, name, reasoning_content } = message;
    let tool_calls = (tool_calls.into_iter().enumerate()).map(|(index, v1::ToolCall { id, name, arguments })| {
        let field = || format!("chat.messages[{message_index}].tool_calls[{index}].arguments");
        Ok(ToolCall { id, name, arguments: object(&arguments, field)? })
    });
    let tool_calls = tool_calls.collect::<Result<_, _>>()?;
    Ok(ChatMessage { role, content, tool_calls, tool_call_id, name, reasoning_content })
}

fn object(json: &str, field: impl FnOnce() -> String) -> Result<Value, Violation> {
    match serde_json::from_str(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(Violation::new(field(), "is JSON, but not an object")),
        Err(error) => Err(Violation::new(field(), format!("is no JSON object: {error}"))),
    }
}

//! The usual requests in one call each. Everything else is a field of [`GenerateRequest`]:
//!
//! ```
//! use specfleet_client::{request, v1::GenerateRequest};
//!
//! let request = GenerateRequest { max_tokens: Some(64), seed: Some(7), ..request::chat("Why is the sky blue?") };
//! # assert_eq!(request.max_tokens, Some(64));
//! ```

use crate::v1::{ChatMessage, ChatPrompt, GenerateRequest, generate_request::Prompt};

/// A chat of one user message, rendered with the model's chat template.
pub fn chat(user: impl Into<String>) -> GenerateRequest {
    conversation(vec![message("user", user)])
}

/// A chat of several messages, rendered with the model's chat template.
pub fn conversation(messages: Vec<ChatMessage>) -> GenerateRequest {
    with_prompt(Prompt::Chat(ChatPrompt { messages, tools: Vec::new() }))
}

/// Plain text, tokenised as it is, for the model to continue.
pub fn text(text: impl Into<String>) -> GenerateRequest {
    with_prompt(Prompt::Text(text.into()))
}

/// One message of a chat; `role` is "system", "user" or "assistant".
pub fn message(role: impl Into<String>, content: impl Into<String>) -> ChatMessage {
    ChatMessage { role: role.into(), content: content.into(), ..ChatMessage::default() }
}

fn with_prompt(prompt: Prompt) -> GenerateRequest {
    GenerateRequest { prompt: Some(prompt), ..GenerateRequest::default() }
}

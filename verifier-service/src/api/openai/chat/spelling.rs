//! How a chat's answer is written.

use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::super::{
    answer::Spelling,
    blame::Blame,
    content::Content,
    logprobs::ChatLogprobs,
    parts::{CallPiece, Sought},
};
use crate::error::Error;

/// How this endpoint spells continuations.
pub(super) struct Chat {
    pub(super) sought: Option<Arc<Sought>>,
    /// For what is wrong with the form of the answer, if it has one.
    pub(super) blame: Option<Blame>,
}

#[derive(Serialize)]
pub(super) struct Choice {
    index: usize,
    message: Answer,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Answer {
    role: &'static str,
    /// Absent in an answer that only calls.
    content: Option<String>,
    refusal: Option<()>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

#[derive(Serialize)]
pub(super) struct Piece {
    index: usize,
    delta: Delta,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reasoning_content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallPiece>,
}

/// A part of a call: the first has its id and the function's name.
#[derive(Serialize)]
struct ToolCallPiece {
    index: usize,
    #[serde(flatten)]
    call: ToolCall,
}

#[derive(Serialize)]
struct ToolCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    arguments: String,
}

impl ToolCall {
    /// The id must be another for each call of a conversation, whatever request it comes from.
    fn new(CallPiece { name, arguments, .. }: CallPiece) -> Self {
        let id = name.as_ref().map(|_| format!("call_{}", Uuid::new_v4().simple()));
        Self { kind: id.as_ref().map(|_| "function"), id, function: Function { name, arguments } }
    }
}

const ROLE: &str = "assistant";

impl Spelling for Chat {
    const OBJECT: &'static str = "chat.completion";
    const CHUNK: &'static str = "chat.completion.chunk";
    const ID_PREFIX: &'static str = "chatcmpl-";
    type Choice = Choice;
    type Piece = Piece;

    fn sought(&self) -> Option<Arc<Sought>> {
        self.sought.clone()
    }

    fn error(&self, error: Error) -> Error {
        match &self.blame {
            Some(blame) => blame.error(error),
            None => error,
        }
    }

    fn whole(&self, index: usize, content: Content, finish_reason: Option<&'static str>) -> Choice {
        let parts = content.parts;
        let message = Answer {
            role: ROLE,
            content: Some(parts.text).filter(|text| !text.is_empty() || parts.calls.is_empty()),
            refusal: None,
            reasoning_content: parts.thoughts,
            tool_calls: parts.calls.into_iter().map(ToolCall::new).collect(),
        };
        Choice { index, message, logprobs: content.tokens.as_ref().map(ChatLogprobs::new), finish_reason }
    }

    fn opening(&self, index: usize) -> Option<Piece> {
        let delta = Delta { role: Some(ROLE), content: Some(String::new()), ..Delta::default() };
        Some(Piece { index, delta, logprobs: None, finish_reason: None })
    }

    fn echo(&self, _: usize) -> Option<&str> {
        None
    }

    fn piece(&self, index: usize, content: Content) -> Piece {
        let parts = content.parts;
        let is_text = !parts.text.is_empty() || (parts.thoughts.is_empty() && parts.calls.is_empty());
        let call = |piece: CallPiece| ToolCallPiece { index: piece.index, call: ToolCall::new(piece) };
        let delta = Delta {
            role: None,
            content: is_text.then_some(parts.text),
            reasoning_content: parts.thoughts,
            tool_calls: parts.calls.into_iter().map(call).collect(),
        };
        Piece { index, delta, logprobs: content.tokens.as_ref().map(ChatLogprobs::new), finish_reason: None }
    }

    fn ending(&self, index: usize, reason: &'static str) -> Piece {
        Piece { index, delta: Delta::default(), logprobs: None, finish_reason: Some(reason) }
    }
}

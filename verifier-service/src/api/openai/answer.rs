//! Answers: the same events either become one object at the end, or a chunk each as they come.
//!
//! The two endpoints spell their continuations differently and agree about everything else, so each is a [`Spelling`]
//! and all else stands here.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Serialize;
use specfleet_protocol::v1::FinishReason;

use super::{
    content::{Content, Reader},
    parts::Sought,
};
use crate::error::Error;

mod chunks;
mod whole;

pub(super) use chunks::{Chunk, Chunks};
pub(super) use whole::collect;

/// How an endpoint spells continuations.
pub(super) trait Spelling: Send + Sync + 'static {
    /// `object` of a whole answer.
    const OBJECT: &'static str;
    /// `object` of a chunk.
    const CHUNK: &'static str;
    /// What the ids of its answers begin with.
    const ID_PREFIX: &'static str;
    /// A whole continuation.
    type Choice: Serialize;
    /// A part of one.
    type Piece: Serialize;

    /// What it tells from the text.
    fn sought(&self) -> Option<Arc<Sought>> {
        None
    }
    /// What went wrong, in terms of what the client sent.
    fn error(&self, error: Error) -> Error {
        error
    }
    /// All of a continuation, behind the text that comes before that of its tokens. One that did not end has no reason.
    fn whole(&self, index: usize, content: Content, reason: Option<&'static str>) -> Self::Choice;
    /// What comes before everything else.
    fn opening(&self, index: usize) -> Option<Self::Piece>;
    /// Text that comes before that of the tokens.
    fn echo(&self, index: usize) -> Option<&str>;
    fn piece(&self, index: usize, content: Content) -> Self::Piece;
    fn ending(&self, index: usize, reason: &'static str) -> Self::Piece;
}

/// What every object of an answer begins with.
#[derive(Clone, Debug)]
pub(super) struct Head {
    id: String,
    created: u64,
    model: String,
    system_fingerprint: String,
}

/// The fields of a head, for an object of one kind.
#[derive(Debug, Serialize)]
struct Named<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
}

impl Head {
    pub(super) fn new<S: Spelling>(request_id: &str, model: &str, system_fingerprint: String) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("{}{request_id}", S::ID_PREFIX),
            created: since_epoch.as_secs(),
            model: model.to_owned(),
            system_fingerprint,
        }
    }

    fn of(&self, object: &'static str) -> Named<'_> {
        let Self { id, created, model, system_fingerprint } = self;
        Named { id, object, created: *created, model, system_fingerprint }
    }
}

fn reason(reason: FinishReason, reader: &Reader) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        FinishReason::Stop | FinishReason::Unspecified if reader.has_called() => "tool_calls",
        FinishReason::Stop | FinishReason::Unspecified => "stop",
    }
}

#[cfg(test)]
mod tests;

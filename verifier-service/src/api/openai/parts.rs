//! A continuation's text taken apart, while it arrives: thoughts, answer, calls of functions.
//!
//! Text arrives in pieces, and a piece may be half a tag, or the end of one call and the beginning of the next: with
//! speculation a round commits several tokens. So a [`Splitter`] looks at characters, never at pieces. It holds back what
//! can still become a tag, or the beginning of a call, and nothing else, and what it yields, put together, depends on the
//! text alone. It is given the text of committed tokens and no other.
//!
//! Nothing of a text is lost. What begins like a call and is none stays text. Only line breaks next to a tag belong to the
//! tag: templates write them there and take them away again when they render the next turn.
//!
//! A call is told to the client as soon as its name is known, and its arguments as they come. That they are JSON, and that
//! the call is whole unless the text is cut, is the [grammar](super::grammar)'s doing.
//!
//! The crates `tool-parser` and `reasoning-parser` have parsers for many more forms. They are not used because theirs look
//! at pieces, and drop text between calls, and calls that are no JSON.

use crate::dialect::{CallForm, Thoughts};

mod arguments;
mod ends;
mod splitter;

pub(super) use splitter::Splitter;

/// What to look for.
#[derive(Clone, Debug)]
pub(super) struct Sought {
    pub(super) thoughts: Option<Thoughts>,
    pub(super) calls: Option<Calls>,
}

/// Calls of these functions.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) form: CallForm,
    pub(super) names: Vec<String>,
}

/// What has become certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) thoughts: String,
    pub(super) text: String,
    pub(super) calls: Vec<CallPiece>,
}

/// A part of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallPiece {
    /// Number of the call in its continuation, from 0.
    pub(super) index: usize,
    /// With the first part.
    pub(super) name: Option<String>,
    /// What follows of the arguments' JSON.
    pub(super) arguments: String,
}

impl Parts {
    /// Adds what comes next.
    pub(super) fn extend(&mut self, more: Self) {
        self.thoughts.push_str(&more.thoughts);
        self.text.push_str(&more.text);
        for piece in more.calls {
            self.add(piece);
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.thoughts.is_empty() && self.text.is_empty() && self.calls.is_empty()
    }

    fn add(&mut self, piece: CallPiece) {
        match self.calls.last_mut() {
            Some(last) if last.index == piece.index => last.arguments.push_str(&piece.arguments),
            _ => self.calls.push(piece),
        }
    }
}

#[cfg(test)]
mod tests;

//! Why there is no mask.

use std::fmt;

use crate::form::MAX_FORM_BYTES;

/// Error texts travel in statuses, and the library's may quote a whole grammar.
const LONGEST_REASON: usize = 200;

/// A form that cannot be asked for, or a grammar that can no longer be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The vocabulary cannot end a text.
    #[error("the model has no end token, so that output of a form could never end; grammars need one")]
    NoEndToken,
    /// More tokens or bytes than masks are built for.
    #[error("a vocabulary of {n_ids} ids and {n_bytes} bytes is too large for grammars")]
    VocabularyTooLarge {
        /// Ids in the vocabulary.
        n_ids: usize,
        /// Bytes of all its tokens.
        n_bytes: usize,
    },
    /// The text of a form is too long.
    #[error("has {n_bytes} bytes, allowed: at most {MAX_FORM_BYTES}")]
    TooLong {
        /// As given.
        n_bytes: usize,
    },
    /// Brackets within brackets, deeper than anybody means.
    #[error("nests brackets {depth} deep, allowed: at most {most}")]
    TooDeep {
        /// As found.
        depth: usize,
        /// The most allowed.
        most: usize,
    },
    /// As many outputs of a given form as there may be, and the memory of more is not there. Nobody's fault, and soon over.
    #[error("{n_places} outputs of a given form may be made at a time")]
    Full {
        /// The limit.
        n_places: usize,
    },
    /// Does not compile, or uses what is not supported.
    #[error("cannot be used: {0}")]
    Unusable(Reason),
    /// A grammar that compiled, and whose next mask cannot be computed: it became too complex, or the tokens cannot spell
    /// what it asks for.
    #[error("cannot be followed any further: {0}")]
    Stuck(Reason),
}

/// What the library said, shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// From an error text, of which the state dumps and back traces that the library appends are dropped.
    pub(crate) fn new(error: impl fmt::Display) -> Self {
        let text = error.to_string();
        let text = text.split("\n<").next().unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        Self(match text.char_indices().nth(LONGEST_REASON) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

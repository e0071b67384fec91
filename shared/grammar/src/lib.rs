//! Output of a given form: which tokens may follow?
//!
//! A model that was asked for JSON mostly writes JSON. Whoever parses it wants "always": at every position the tokens that
//! cannot continue the form are banned before one is drawn. With speculation that has to hold for the target *and* be
//! undone: state that was moved over draft tokens and not taken back after a rejection refuses the next good token.
//!
//! - [`Form`] is what a client asks for: a JSON schema, a regular expression, or a grammar.
//! - [`Vocabulary`] is what a model can write: the bytes of its tokens, its special tokens, its end tokens.
//! - [`Grammars`] compiles forms for a vocabulary, within bounds, remembers the last ones, and bounds how many outputs there
//!   are at a time: each may take up to [`MOST_BYTES`].
//! - [`Matcher`] is where one sequence stands. It is moved forward by committed tokens alone; masks after draft tokens are
//!   questions to it, which leave no trace.
//!
//! A mask is computed from the *bytes* of the text so far and the bytes of the tokens. No spelling is preferred and none is
//! forced, so a masked row is the model's own row with the impossible tokens taken out, whatever the tokens were that led
//! there. The work is done by the `llguidance` library (an Earley parser over a lexer of regular-expression derivatives,
//! walked along a trie of the vocabulary).
//!
//! ```
//! use specfleet_grammar::{Error, Form, Grammars, Matcher, Spelling, Vocabulary};
//!
//! let tokens = ["a", "b", "ab", "<end>"];
//! let spelling = |id: u32| match tokens[id as usize] {
//!     "<end>" => Spelling::Special(b"<end>"),
//!     text => Spelling::Text(text.as_bytes()),
//! };
//! let grammars = Grammars::new(Vocabulary::new(4, spelling, &[3])?);
//!
//! let mut matcher = grammars.compile(&Form::Regex("ab+".into()), 1)?;
//! let allowed = |matcher: &mut Matcher, pending: &[u32]| -> Result<Vec<u32>, Error> {
//!     let mask = matcher.mask(pending)?;
//!     Ok((0..4).filter(|id| mask.allows(*id)).collect())
//! };
//! assert_eq!(allowed(&mut matcher, &[])?, [0, 2]);
//! assert_eq!(allowed(&mut matcher, &[0])?, [1]);
//! matcher.commit(2);
//! assert_eq!(allowed(&mut matcher, &[])?, [1, 3]);
//! # Ok::<(), Error>(())
//! ```
//!
//! **Not here:** models, requests, sockets, tensors.

mod compile;
mod cost;
mod depth;
mod error;
mod form;
mod grammars;
mod matcher;
mod parser;
mod places;
mod vocabulary;

pub use compile::WHITE_SPACE;
pub use error::Error;
pub use form::{Form, MAX_FORM_BYTES};
pub use grammars::{DEFAULT_PLACES, Grammars};
pub use matcher::{MOST_BYTES, Matcher};
pub use places::Occupancy;
pub use vocabulary::{Spelling, Vocabulary};

#[cfg(test)]
mod tests;

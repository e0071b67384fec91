//! Where one sequence stands in its grammar.

use std::{fmt, sync::Arc};

use specfleet_speculation::{TokenId, transform::Mask};

use crate::{Error, error::Reason};

/// The state of one sequence: which tokens may follow what is committed, and what is committed with some pending tokens.
///
/// Only [`commit`](Self::commit) moves it. A question about pending tokens moves the library's state over them, and the
/// next question or commit takes back what does not belong to it: what was asked about a rejected token leaves no trace.
///
/// Cloning is cheap and gives an independent state. Clones share the lexer's automaton, which grows while they run, so they
/// must belong to one client: one that makes it grow too large fails them all.
#[derive(Clone)]
pub struct Matcher {
    inner: llguidance::Matcher,
    end_tokens: Arc<[TokenId]>,
    /// Tokens after the committed ones that `inner` has been moved over.
    ahead: Vec<TokenId>,
    /// An end token is committed: nothing follows.
    has_ended: bool,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Matcher").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl Matcher {
    pub(crate) fn new(inner: llguidance::Matcher, end_tokens: Arc<[TokenId]>) -> Self {
        Self { inner, end_tokens, ahead: Vec::new(), has_ended: false }
    }

    /// At the beginning of the same grammar, for another client: shares nothing.
    pub(crate) fn separate(&self) -> Self {
        Self { inner: self.inner.deep_clone(), end_tokens: self.end_tokens.clone(), ahead: Vec::new(), ..*self }
    }

    /// The ids that may follow the committed tokens and then `pending`. Where the text may end, all end tokens are among
    /// them; where nothing else can follow, only these. After an end token there is none.
    ///
    /// # Errors
    /// [`Error::Stuck`], from then on for ever; also if a committed or pending token was not allowed where it stood.
    pub fn mask(&mut self, pending: &[TokenId]) -> Result<Mask, Error> {
        if self.has_ended || pending.iter().any(|token| self.end_tokens.contains(token)) {
            return Ok(Mask::default());
        }
        self.go_to(pending)?;
        let allowed = self.inner.compute_mask_or_eos().map_err(stuck)?;
        Ok(Mask::from_words(allowed.into()))
    }

    /// Makes one more token final. One that was not allowed makes the next [`mask`](Self::mask) an error.
    pub fn commit(&mut self, token: TokenId) {
        if self.ahead.first() == Some(&token) {
            self.ahead.remove(0);
        } else if self.end_tokens.contains(&token) {
            self.has_ended = true;
        } else if self.go_to(&[token]).is_ok() {
            self.ahead.clear();
        }
    }

    /// How many of `tokens`, from the first on, may follow the committed tokens.
    pub fn n_allowed(&mut self, tokens: &[TokenId]) -> usize {
        if self.has_ended || self.go_to(&[]).is_err() {
            return 0;
        }
        if self.inner.is_stopped() {
            return usize::from(tokens.first().is_some_and(|token| self.end_tokens.contains(token)));
        }
        // A library that has given up allows nothing.
        self.inner.validate_tokens(tokens).unwrap_or(0)
    }

    /// Moves the library's state to just behind `pending`.
    fn go_to(&mut self, pending: &[TokenId]) -> Result<(), Error> {
        let n_common = self.ahead.iter().zip(pending).take_while(|(ahead, pending)| ahead == pending).count();
        self.inner.rollback(self.ahead.len() - n_common).map_err(stuck)?;
        self.ahead.truncate(n_common);
        for &token in &pending[n_common..] {
            self.inner.consume_token(token).map_err(stuck)?;
            self.ahead.push(token);
        }
        Ok(())
    }
}

fn stuck(error: impl fmt::Display) -> Error {
    Error::Stuck(Reason::new(error))
}

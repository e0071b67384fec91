//! How often each token occurs in a committed prefix.

use std::collections::HashMap;

use crate::TokenId;

/// Occurrences in a committed prefix, prompt and output apart, as the penalties need them.
///
/// Only committed tokens are ever pushed, so a rejected draft token leaves no trace here.
#[derive(Clone, Debug, Default)]
pub struct TokenCounts {
    /// Occurrences in the output; an id that is only in the prompt has 0.
    generated: HashMap<TokenId, u32>,
    n_generated: usize,
}

impl TokenCounts {
    /// Counts of a prompt, before anything is generated.
    pub fn new(prompt: &[TokenId]) -> Self {
        Self { generated: prompt.iter().map(|token| (*token, 0)).collect(), n_generated: 0 }
    }

    /// Counts one more committed token.
    pub fn push_generated(&mut self, token: TokenId) {
        *self.generated.entry(token).or_insert(0) += 1;
        self.n_generated += 1;
    }

    /// Committed tokens after the prompt.
    pub fn n_generated(&self) -> usize {
        self.n_generated
    }

    /// Each id of the prefix followed by `pending`, once, with its occurrences after the prompt.
    pub(super) fn with_pending(&self, pending: &[TokenId]) -> impl Iterator<Item = (TokenId, u32)> {
        let n_pending = |token: TokenId| pending.iter().filter(|other| **other == token).count() as u32;
        let committed = self.generated.iter().map(move |(token, count)| (*token, count + n_pending(*token)));
        let is_new =
            |index: usize, token: &TokenId| !self.generated.contains_key(token) && !pending[..index].contains(token);
        let new = pending.iter().enumerate().filter(move |(index, token)| is_new(*index, token));
        committed.chain(new.map(move |(_, token)| (*token, n_pending(*token))))
    }
}

//! Log-probabilities, for requests that ask for them.
//!
//! They are the target's own: the log-softmax of its logits, before any transform of the client's, and never anything
//! of a draft's. The row of a position gives both the decision about its token and its score, whether the token was
//! accepted, corrected, a bonus or plain; so a token is scored the same with speculation and without.
//!
//! The decision shapes rows in place. What is to be scored is copied before, and only for requests that ask.

use specfleet_model::batch::Logits;
use specfleet_speculation::{
    TokenId,
    transform::{self, RawLogprobs, Vocabulary},
};

use super::Sequence;
use crate::{
    output::{OutputToken, TokenScore},
    request::Request,
};

/// The model's rows of a round, as they were before it was decided.
pub(super) struct RawRows(Vec<Vec<f32>>);

impl RawRows {
    /// Copies rows from `first` on.
    pub(super) fn copy(logits: &Logits, first: usize, n_rows: usize) -> Self {
        Self((first..first + n_rows).map(|row| logits.row(row).to_vec()).collect())
    }

    /// Scores the tokens of the round: the i-th was chosen from the i-th row.
    pub(super) fn score(
        &self,
        tokens: &mut [OutputToken],
        vocabulary: Vocabulary<'_>,
        request: &Request,
    ) -> Result<(), transform::Error> {
        let (n_vocab, n_top) = (request.transforms.n_vocab(), request.n_top_logprobs.unwrap_or(0));
        for (row, token) in self.0.iter().zip(tokens) {
            token.score = Some(score(row, vocabulary, n_vocab, token.token, n_top)?);
        }
        Ok(())
    }
}

impl Sequence {
    /// Whether this continuation scores the prompt: one does it for all of them.
    pub(super) fn scores_prompt(&self) -> bool {
        self.request.prompt_logprobs && self.output.choice_index() == 0
    }

    /// How many of the likeliest tokens are wanted beside each token of the prompt, if these are to be scored and are
    /// not all scored yet.
    pub(super) fn wants_prompt_scores(&self) -> Option<usize> {
        let is_open = self.prompt_scores.len() + 1 < self.request.prompt.len();
        self.request.n_top_logprobs.filter(|_| self.scores_prompt() && is_open)
    }

    /// The part of the prefix that may be found in the cache: a prompt whose scores are missing has to be computed.
    pub(super) fn reusable(&self) -> &[TokenId] {
        match self.wants_prompt_scores() {
            Some(_) => &self.committed[..=self.prompt_scores.len()],
            None => &self.committed,
        }
    }

    /// Scores the prompt's tokens that follow `n_rows` rows, the first of which is that of position `first_position`.
    /// What a sequence that lost its memory computes again is not scored again.
    pub(super) fn score_prompt(
        &mut self,
        logits: &Logits,
        first_row: usize,
        n_rows: usize,
        first_position: usize,
        vocabulary: Vocabulary<'_>,
    ) -> Result<(), transform::Error> {
        let Some(n_top) = self.wants_prompt_scores() else { return Ok(()) };
        let n_vocab = self.request.transforms.n_vocab();
        for index in 0..n_rows {
            let next = first_position + index + 1;
            if next == self.prompt_scores.len() + 1
                && let Some(&token) = self.request.prompt.get(next)
            {
                let row = logits.row(first_row + index);
                self.prompt_scores.push(score(row, vocabulary, n_vocab, token, n_top)?);
            }
        }
        Ok(())
    }
}

fn score(
    row: &[f32],
    vocabulary: Vocabulary<'_>,
    n_vocab: usize,
    token: TokenId,
    n_top: usize,
) -> Result<TokenScore, transform::Error> {
    let raw = RawLogprobs::new(row, vocabulary, n_vocab)?;
    Ok(TokenScore { logprob: raw.of(token), top: raw.top(n_top) })
}

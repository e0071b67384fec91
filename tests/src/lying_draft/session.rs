//! What the lying draft knows about one sequence.

use specfleet_protocol::{
    convert::{DistributionForm, DraftSettings},
    status::invalid_argument,
};
use specfleet_speculation::{
    TokenId,
    propose::{Rule, Support},
    random::DraftRandomness,
    transform::{SamplingParams, TokenCounts},
};
use tonic::Status;

/// One session: the committed prefix, and how the client wants its tokens drawn.
pub(super) struct Session {
    committed: Vec<TokenId>,
    pub(super) counts: TokenCounts,
    pub(super) sampling: SamplingParams,
    pub(super) n_vocab: usize,
    pub(super) randomness: DraftRandomness,
    pub(super) rule: Rule,
    pub(super) support: Support,
}

impl Session {
    pub(super) fn new(
        settings: DraftSettings,
        n_vocab: usize,
        committed: &[TokenId],
        n_prompt: usize,
    ) -> Result<Self, Status> {
        if n_prompt == 0 || n_prompt > committed.len() {
            return Err(invalid_argument("prompt_length", "must be from 1 to the number of committed tokens"));
        }
        let support = match settings.form {
            DistributionForm::Sparse => Support::default(),
            DistributionForm::Dense => Support::Full,
        };
        let mut session = Self {
            committed: committed[..n_prompt].to_vec(),
            counts: TokenCounts::new(&committed[..n_prompt]),
            sampling: settings.sampling,
            n_vocab,
            randomness: DraftRandomness::new(&settings.draft_seed),
            rule: settings.rule,
            support,
        };
        session.extend(&committed[n_prompt..]);
        Ok(session)
    }

    pub(super) fn extend(&mut self, committed: &[TokenId]) {
        self.committed.extend(committed);
        committed.iter().for_each(|&token| self.counts.push_generated(token));
    }

    pub(super) fn committed(&self) -> &[TokenId] {
        &self.committed
    }

    pub(super) fn prefix_with(&self, drafted: &[TokenId]) -> Vec<TokenId> {
        [&self.committed, drafted].concat()
    }
}

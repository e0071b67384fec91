//! One round: a proposal and the target's rows become committed tokens.
//!
//! Positions are tested in order until one fails, the sequence ends, or the budget is spent. A failed position commits
//! the corrected token and voids the rest. If all passed, the target's row after the last one gives a bonus token.
//! Without a proposal only that last step remains, which is plain decoding: not a mode of its own, but a round of draft
//! length zero.
//!
//! **Whether a position is tested never depends on its token.** The end and the budget are looked at between
//! positions, after a token was committed.

use crate::TokenId;
use crate::accept::{Judge, Standard, Verdict};
use crate::coupled::DraftInvariant;
use crate::distribution::{DraftDistribution, Proposal};
use crate::propose::Rule;
use crate::random::VerifyRandomness;
use crate::transform::Shaped;

/// How a committed token came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A draft token that passed.
    Accepted,
    /// Chosen by the target where a draft token failed.
    Corrected,
    /// Chosen by the target after all draft tokens passed.
    Bonus,
    /// Chosen by the target in a round without a proposal.
    Plain,
}

/// A token that is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedToken {
    /// The token.
    pub token: TokenId,
    /// How it came about.
    pub origin: Origin,
}

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundOutcome {
    /// New tokens in order, at least one if the budget allows one.
    pub committed: Vec<CommittedToken>,
    /// Draft tokens that were put to the test.
    pub n_tested: usize,
    /// Draft tokens that passed: the length of the leading run.
    pub n_accepted: usize,
}

/// What a round is about.
#[derive(Clone, Copy)]
pub struct RoundInput<'a> {
    /// What the draft proposes after the committed prefix, if anything.
    pub proposal: Option<&'a Proposal>,
    /// Length of the committed prefix, which is also the position of the first token of this round.
    pub base_length: u64,
    /// How draft tokens are put to the test.
    pub rule: Rule,
    /// The request's random numbers.
    pub randomness: &'a VerifyRandomness,
    /// Whether the sequence ends after a token.
    pub is_end: &'a dyn Fn(TokenId) -> bool,
    /// At most this many tokens are committed, corrected and bonus tokens included; at least 1.
    pub budget: usize,
}

/// Decides a round.
///
/// `target_row(i, before)` gives the shaped row of the target at position `base_length + i`, after the accepted draft
/// tokens `before`. Rows are asked for in order and only as far as they are needed, so rows that a rejection makes
/// meaningless are never shaped. The first error ends the round, and nothing of it is committed.
pub fn decide<E>(
    input: RoundInput<'_>,
    target_row: impl FnMut(usize, &[TokenId]) -> Result<Shaped, E>,
) -> Result<RoundOutcome, E> {
    let round = Round::of(&input);
    match input.rule {
        Rule::Standard => round.decide(&mut Standard(&input.randomness.numbers), target_row),
        Rule::DraftInvariant => round.decide(&mut DraftInvariant(&input.randomness.noise), target_row),
    }
}

/// A round without its randomness: whatever the type of distributions, and whoever judges.
pub struct Round<'a, Draft> {
    /// Draft tokens.
    pub tokens: &'a [TokenId],
    /// What each was drawn from.
    pub distributions: &'a [Draft],
    /// See [`RoundInput::base_length`].
    pub base_length: u64,
    /// See [`RoundInput::is_end`].
    pub is_end: &'a dyn Fn(TokenId) -> bool,
    /// See [`RoundInput::budget`].
    pub budget: usize,
}

impl<'a> Round<'a, DraftDistribution> {
    /// What is left of an input when its rule and its randomness are taken away.
    pub fn of(input: &RoundInput<'a>) -> Self {
        let (tokens, distributions) =
            input.proposal.map_or((&[][..], &[][..]), |proposal| (proposal.tokens(), proposal.distributions()));
        let &RoundInput { base_length, is_end, budget, .. } = input;
        Self { tokens, distributions, base_length, is_end, budget }
    }
}

impl<Draft> Round<'_, Draft> {
    /// Decides the round; see [`decide`].
    pub fn decide<Target, E>(
        self,
        judge: &mut (impl Judge<Target, Draft> + ?Sized),
        mut target_row: impl FnMut(usize, &[TokenId]) -> Result<Target, E>,
    ) -> Result<RoundOutcome, E> {
        let mut outcome = RoundOutcome::default();
        for (index, (token, draft)) in self.tokens.iter().zip(self.distributions).enumerate() {
            if outcome.committed.len() == self.budget {
                return Ok(outcome);
            }
            let target = target_row(index, &self.tokens[..index])?;
            outcome.n_tested += 1;
            match judge.judge(self.position(index), *token, draft, &target) {
                Verdict::Corrected(token) => {
                    outcome.commit(token, Origin::Corrected);
                    return Ok(outcome);
                }
                Verdict::Accepted => {
                    outcome.commit(*token, Origin::Accepted);
                    outcome.n_accepted += 1;
                    if (self.is_end)(*token) {
                        return Ok(outcome);
                    }
                }
            }
        }
        if outcome.committed.len() < self.budget {
            let n_drafted = self.tokens.len();
            let target = target_row(n_drafted, self.tokens)?;
            let origin = if n_drafted == 0 { Origin::Plain } else { Origin::Bonus };
            outcome.commit(judge.choose(self.position(n_drafted), &target), origin);
        }
        Ok(outcome)
    }

    fn position(&self, index: usize) -> u64 {
        self.base_length + index as u64
    }
}

impl RoundOutcome {
    /// Forgets all but the first `n` tokens, as if the sequence had ended there.
    pub fn truncate(&mut self, n: usize) {
        self.committed.truncate(n);
        self.n_tested = self.n_tested.min(n);
        self.n_accepted = self.n_accepted.min(n);
    }

    fn commit(&mut self, token: TokenId, origin: Origin) {
        self.committed.push(CommittedToken { token, origin });
    }
}

//! The rule for one position.
//!
//! Given the target's distribution p and a token x that was drawn from q: accept x with probability
//! min(1, p(x) / q(x)); otherwise draw from the normalised positive part of p - q (Leviathan, Kalman, Matias, "Fast
//! Inference from Transformers via Speculative Decoding", 2023, algorithm 1 and appendix A.1; Chen et al., "Accelerating
//! Large Language Model Decoding with Speculative Sampling", 2023). The result is distributed like p for every q.
//!
//! Every quotient is multiplied out. With weights w and totals t, p(x) / q(x) is compared as `wp(x) * tq` against
//! `wq(x) * tp`, and the residual is `max(wp * tq - wq * tp, 0)`: no division, so nothing to divide by zero.

use num_traits::Zero;

use crate::TokenId;
use crate::law::{self, BLOCK, Law, Number};
use crate::random::{Purpose, VerifyRandom};

/// What became of a draft token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The draft token is committed.
    Accepted,
    /// This token is committed instead, and the tokens drafted after it are void.
    Corrected(TokenId),
}

/// Decides about single positions.
pub trait Judge<Target, Draft> {
    /// Puts a draft token, drawn from `draft`, to the test against `target`.
    fn judge(&mut self, position: u64, proposed: TokenId, draft: &Draft, target: &Target) -> Verdict;

    /// Chooses a token where nothing was proposed: after a round that passed, or in a plain step.
    fn choose(&mut self, position: u64, target: &Target) -> TokenId;
}

/// The two kinds of random choice that the rule makes. The streams of a request serve them with numbers; a proof
/// takes every branch and keeps its exact probability.
pub trait Choices<N: Number> {
    /// True with probability `min(1, favourable / possible)`, and never if `favourable` is 0.
    fn passes(&mut self, position: u64, favourable: N, possible: N) -> bool;

    /// An id, drawn from a law.
    fn draw<L: Law<Number = N>>(&mut self, position: u64, law: &L) -> TokenId;
}

/// The standard rule: exact for every draft.
#[derive(Clone, Debug)]
pub struct Standard<C>(pub C);

impl<N, Target, Draft, C> Judge<Target, Draft> for Standard<C>
where
    N: Number,
    Target: Law<Number = N>,
    Draft: Law<Number = N>,
    C: Choices<N>,
{
    fn judge(&mut self, position: u64, proposed: TokenId, draft: &Draft, target: &Target) -> Verdict {
        let favourable = target.weight(proposed) * draft.total();
        let possible = draft.weight(proposed) * target.total();
        if self.0.passes(position, favourable, possible) {
            return Verdict::Accepted;
        }
        Verdict::Corrected(match Residual::new(target, draft) {
            Some(residual) => self.0.draw(position, &residual),
            // Exactly, p = q never rejects. Rounding can, and then p - q has no positive part.
            None => self.0.draw(position, target),
        })
    }

    fn choose(&mut self, position: u64, target: &Target) -> TokenId {
        self.0.draw(position, target)
    }
}

impl Choices<f64> for &VerifyRandom {
    fn passes(&mut self, position: u64, favourable: f64, possible: f64) -> bool {
        passes(self.uniform(position, Purpose::Accept), favourable, possible)
    }

    fn draw<L: Law<Number = f64>>(&mut self, position: u64, law: &L) -> TokenId {
        law::sample(law, self.uniform(position, Purpose::Choose))
    }
}

/// Strict, because the number may be 0, and a token that the target excludes must fail even then.
fn passes(uniform: f64, favourable: f64, possible: f64) -> bool {
    uniform * possible < favourable
}

/// The positive part of p - q, in units of both totals.
pub struct Residual<'a, Target, Draft, N> {
    target: &'a Target,
    draft: &'a Draft,
    target_total: N,
    draft_total: N,
    block_totals: Vec<N>,
    total: N,
}

impl<'a, N, Target, Draft> Residual<'a, Target, Draft, N>
where
    N: Number,
    Target: Law<Number = N>,
    Draft: Law<Number = N>,
{
    /// `None` if p - q has no positive part.
    pub fn new(target: &'a Target, draft: &'a Draft) -> Option<Self> {
        let mut residual = Self {
            target,
            draft,
            target_total: target.total(),
            draft_total: draft.total(),
            block_totals: Vec::new(),
            total: N::zero(),
        };
        let blocks = 0..target.width().div_ceil(BLOCK);
        residual.block_totals = blocks.map(|block| residual.sum_of_block(block)).collect();
        residual.total = residual.block_totals.iter().fold(N::zero(), |sum, total| sum + total.clone());
        (residual.total > N::zero()).then_some(residual)
    }

    /// A draft names few ids, so in most blocks the residual is p itself and need not be summed again.
    fn sum_of_block(&self, block: usize) -> N {
        if self.draft.block_total(block).is_zero() {
            return self.target.block_total(block) * self.draft_total.clone();
        }
        law::ids_of_block(block, self.width()).fold(N::zero(), |sum, token| sum + self.weight(token))
    }
}

impl<N, Target, Draft> Law for Residual<'_, Target, Draft, N>
where
    N: Number,
    Target: Law<Number = N>,
    Draft: Law<Number = N>,
{
    type Number = N;

    fn width(&self) -> usize {
        self.target.width()
    }

    fn weight(&self, token: TokenId) -> N {
        let wanted = self.target.weight(token) * self.draft_total.clone();
        let offered = self.draft.weight(token) * self.target_total.clone();
        if wanted > offered { wanted - offered } else { N::zero() }
    }

    fn total(&self) -> N {
        self.total.clone()
    }

    fn block_total(&self, block: usize) -> N {
        self.block_totals.get(block).cloned().unwrap_or_else(Zero::zero)
    }
}

#[cfg(test)]
mod tests;

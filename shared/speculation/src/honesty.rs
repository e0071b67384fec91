//! Is q really what draft tokens are drawn from?
//!
//! The acceptance rule is exact if each draft token was drawn from the q that came with it. The verifier cannot see the
//! draw: q is the claim of another service, which is upgraded by itself. A draft that draws in half precision, truncates
//! after the draw, or forgets the temperature on one side bends the output, and the text stays fluent. But an honest
//! draft leaves traces whose law is known at every position that the standard rule tests, whatever p and q are there:
//!
//! - *Acceptance.* The token passes with probability exactly `sum of min(p, q)`.
//! - *Rank.* Lay the ids out in [0, 1) by falling q, each as wide as its probability. A token drawn from q, at a random
//!   place within its width, is uniform on [0, 1) (the randomised probability integral transform). Tokens that are likely
//!   too often gather at 0, and what is never drawn leaves a gap before 1.
//! - *Place.* The same with the ids in their own order, in which draws are made: ties that all go one way show here. And
//!   the way from one token's place to the next one's is uniform too; a number that is used twice makes it short.
//!
//! # The test
//!
//! [`Audit`] bets on these events at their fair price (`wagers`). If the claim is true, no bet has an edge, and capital
//! that starts at 1 reaches c with probability at most 1/c *at any time* (Ville's inequality; Ramdas, Grünwald, Vovk,
//! Shafer, "Game-theoretic statistics and safe anytime-valid inference", 2023). The logarithm of the capital is the
//! *evidence* against the claim. The two tests, acceptance and rank (with place), may each err with half of
//! [`FALSE_ALARM_RATE`], so either fails a version when its evidence reaches ln(2 / rate) = 14.5.
//!
//! # What is guaranteed
//!
//! **A version whose tokens are drawn from the q that it reports is failed with probability at most one in a million over
//! its whole life**, however long that is and however often one looks. Nothing is assumed of p, q or prompts, and of traffic
//! only that whether a proposal is in time does not depend on its tokens: one that is late is not tested.
//! What counts is the q of the message in its own precision; the computations here are off by less than 1e-13 a
//! position, which ten thousand million positions cannot add up to anything.
//!
//! A lie is found if it moves a probability that is bet on, and after about `(22 + ln n + 2 ln ln n) / d` tested
//! positions, where n is the number of honest positions before it and d how much evidence a position gives, on average,
//! to the best bet. A tail of mass m that is never drawn gives d = m. Acceptance whose odds are off by a share s gives
//! d = s² a (1 - a) / 2, where a is the expected acceptance: 1% takes about two million positions, and less than 0.2% is
//! never found.
//!
//! # What is not guaranteed
//!
//! - A lie too small to matter is not found. Nor, for long, is one whose errors cancel over positions: logits that are
//!   rounded to half precision before the draw push tokens up here and down there, by a few percent. Unless the same
//!   contexts recur, only what rounding does on average is left to be found, a flatter distribution. In simulation, at
//!   temperatures of 0.1 and 0.2, that took 100 to 200 thousand positions where many tokens are nearly as likely as the
//!   likeliest; on ordinary rows, where rounding changes 0.4% of the draws, twelve million were not enough.
//! - Until a lie is found, it bends the output.
//! - This is built against mistakes. A draft that wants to deceive can lie at few positions, or take a new version id. If
//!   a draft is not to be trusted at all, judge its tokens as point masses
//!   ([`Proposal::disbelieve`](crate::distribution::Proposal::disbelieve)): that is exact whatever it does.
//!
//! # What is not audited
//!
//! - Positions behind a rejection: they were not tested, so nobody looked at them.
//! - Point masses, which claim nothing that could be false, and the draft-invariant rule, which does not use q: there the
//!   output is the target's whatever the draft does.
//! - Draws from a seed that somebody chose. The same request twice gives the same draws twice, and evidence that can be
//!   repeated at will is none. That is for the caller to see to: see [`decide`].

mod observation;
mod wagers;

pub use observation::{Observation, decide};

use wagers::Wagers;

/// The chance that a version which keeps its promise is ever failed.
pub const FALSE_ALARM_RATE: f64 = 1e-6;

/// One rate for two tests: each gets half (Bonferroni).
const N_TESTS: f64 = 2.0;

/// Ranks are compared with 1/8, 1/4, 1/2 and on to `1 - 2^-16`: few draws go there, and it is where truncation shows.
const FINEST_TAIL: i32 = 16;
/// What places are compared with.
const QUARTERS: [f64; 3] = [0.25, 0.5, 0.75];
/// Steps from place to place are compared with half of 1/2, 1/4 and on to `2^-6`, both ways round the circle.
const SHORTEST_STEP: i32 = 6;

/// The two tests of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// How often tokens pass, against how often they should.
    Acceptance,
    /// Where tokens fall in the distribution that they are said to be drawn from.
    Rank,
}

/// The running test of one draft version's claim.
#[derive(Clone, Debug)]
pub struct Audit {
    acceptance: Wagers,
    rank: Wagers,
    borders: Vec<f64>,
    last_place: Option<f64>,
    n_positions: u64,
    n_accepted: u64,
    expected_accepted: f64,
}

/// Where an audit stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Tested positions.
    pub positions: u64,
    /// How many of them should have passed: the sum of `sum of min(p, q)`.
    pub expected_accepted: f64,
    /// How many have passed.
    pub accepted: u64,
    /// The most evidence that acceptance has given at any time, as a natural logarithm.
    pub acceptance_evidence: f64,
    /// The most evidence that ranks and places have given at any time, as a natural logarithm.
    pub rank_evidence: f64,
    /// The evidence at which a version has failed.
    pub threshold: f64,
}

impl Audit {
    /// An audit that has seen nothing.
    pub fn new() -> Self {
        let tails = (1..=FINEST_TAIL).map(|power| 1.0 - 2.0_f64.powi(-power));
        let borders: Vec<f64> = [0.125, 0.25].into_iter().chain(tails).collect();
        Self {
            acceptance: Wagers::on(1),
            rank: Wagers::on(borders.len() + QUARTERS.len() + SHORTEST_STEP as usize),
            borders,
            last_place: None,
            n_positions: 0,
            n_accepted: 0,
            expected_accepted: 0.0,
        }
    }

    /// Takes in the next tested position. After a failure nothing is added: the verdict is final.
    pub fn observe(&mut self, observation: &Observation) {
        if self.failed().is_some() {
            return;
        }
        let Observation { expected, accepted, rank, place } = *observation;
        self.n_positions += 1;
        self.n_accepted += u64::from(accepted);
        self.expected_accepted += expected;
        self.acceptance.settle([(expected, accepted)]);

        let ranks = self.borders.iter().map(|border| (*border, rank < *border));
        let places = QUARTERS.iter().map(|quarter| (*quarter, place < *quarter));
        // Before the second token there is no step: nothing can be won or lost on an event that cannot happen.
        let step = self.last_place.map(|last_place| (place - last_place).rem_euclid(1.0));
        let steps = (1..=SHORTEST_STEP).map(|power| {
            let probability = 2.0_f64.powi(-power);
            step.map_or((0.0, false), |step| (probability, step.min(1.0 - step) < 0.5 * probability))
        });
        self.rank.settle(ranks.chain(places).chain(steps));
        self.last_place = Some(place);
    }

    /// The test that has refuted the claim, if one has.
    pub fn failed(&self) -> Option<Test> {
        let exceeds = |wagers: &Wagers| wagers.evidence() >= threshold();
        match (exceeds(&self.rank), exceeds(&self.acceptance)) {
            (true, _) => Some(Test::Rank),
            (_, true) => Some(Test::Acceptance),
            _ => None,
        }
    }

    /// Where it stands.
    pub fn figures(&self) -> Figures {
        Figures {
            positions: self.n_positions,
            expected_accepted: self.expected_accepted,
            accepted: self.n_accepted,
            acceptance_evidence: self.acceptance.evidence(),
            rank_evidence: self.rank.evidence(),
            threshold: threshold(),
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self::new()
    }
}

/// The evidence at which a claim counts as refuted.
fn threshold() -> f64 {
    (N_TESTS / FALSE_ALARM_RATE).ln()
}

#[cfg(test)]
mod tests;

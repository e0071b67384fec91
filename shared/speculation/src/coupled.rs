//! The draft-invariant rule: text that depends on the seed and the target alone.
//!
//! Under the standard rule a seed fixes the text only together with the draft: another draft version, another draft
//! length, a fall-back to plain decoding, and other numbers get used at other places. Under this rule target and draft
//! both choose the first arrival under the *same* noise ([`SharedNoise`]), and a draft token passes iff it is the token
//! that the target chooses at that position anyway. What is committed is always the target's choice. The draft only
//! makes it cheap to find out.
//!
//! Each position has noise of its own, and one committed token uses it, so the law is the target's. q plays no part.
//! The price is a lower acceptance rate: with total variation distance D between p and q the standard rule accepts with
//! probability 1 - D, this one with at least (1 - D) / (1 + D) (Daliri, Musco, Suresh, "Coupling without Communication
//! and Drafter-Invariant Speculative Decoding", 2024).

use crate::TokenId;
use crate::accept::{Judge, Verdict};
use crate::random::SharedNoise;
use crate::transform::Shaped;

/// The token that a distribution chooses under the noise of a position.
pub fn choose(shaped: &Shaped, noise: &SharedNoise, position: u64) -> TokenId {
    match shaped {
        Shaped::Point(token) => *token,
        Shaped::Weights(weights) => {
            let index = noise.first_arrival(position, weights.weights(), weights.ids());
            weights.token(index.expect("shaped weights have a positive total"))
        }
    }
}

/// What target and draft share without talking: whoever holds a law can choose from it, and similar laws choose alike.
/// The noise of a request serves it; a proof takes every branch and keeps its exact probability.
pub trait SharedChoice<Target> {
    /// The token that a law chooses at a position: the same one however often it is asked.
    fn choose(&mut self, position: u64, law: &Target) -> TokenId;
}

impl SharedChoice<Shaped> for &SharedNoise {
    fn choose(&mut self, position: u64, law: &Shaped) -> TokenId {
        choose(law, self, position)
    }
}

/// Accepts exactly the tokens that the target chooses itself.
#[derive(Clone, Copy)]
pub struct DraftInvariant<C>(pub C);

impl<Target, Draft, C: SharedChoice<Target>> Judge<Target, Draft> for DraftInvariant<C> {
    fn judge(&mut self, position: u64, proposed: TokenId, _draft: &Draft, target: &Target) -> Verdict {
        let chosen = self.0.choose(position, target);
        if chosen == proposed { Verdict::Accepted } else { Verdict::Corrected(chosen) }
    }

    fn choose(&mut self, position: u64, target: &Target) -> TokenId {
        self.0.choose(position, target)
    }
}

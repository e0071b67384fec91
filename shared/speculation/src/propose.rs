//! The draft's side of one position: shape, reduce to integers, draw from the integers.
//!
//! The order is the point. The token is drawn from the very numbers that travel, after they have been truncated and
//! rounded. Whatever rounding does to q, the verifier tests against the q that was used.

use std::num::NonZeroU32;

use crate::TokenId;
use crate::coupled;
use crate::distribution::{DenseWeights, DraftDistribution, SparseWeights};
use crate::law;
use crate::random::DraftRandomness;
use crate::select;
use crate::transform::{Shaped, ShapedWeights};

/// Integer weights add up to about this much: far finer than acceptance can notice, and four bytes or less on the wire.
const QUANTUM_COUNT: f64 = (1_u32 << 24) as f64;

/// How draft tokens are put to the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Accept with probability min(1, p/q), else draw from the residual: [`crate::accept`].
    #[default]
    Standard,
    /// Accept what the target chooses itself under shared noise: [`crate::coupled`].
    DraftInvariant,
}

/// How many ids the draft draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The likeliest ones, with integer weights.
    Top(NonZeroU32),
    /// All, with f32 probabilities.
    Full,
}

impl Default for Support {
    /// 64 ids: they hold nearly all of q, and take 200 to 400 bytes on the wire.
    fn default() -> Self {
        Self::Top(NonZeroU32::new(64).expect("64 is not zero"))
    }
}

/// A draft token and what it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    /// The token, in the target's numbering.
    pub token: TokenId,
    /// The distribution, in the target's numbering.
    pub distribution: DraftDistribution,
}

/// Draws the draft token at a position from the draft's shaped row.
pub fn draft_token(
    shaped: &Shaped,
    support: Support,
    rule: Rule,
    randomness: &DraftRandomness,
    position: u64,
) -> Drafted {
    match (shaped, rule, support) {
        (Shaped::Point(token), _, _) => point(*token),
        (Shaped::Weights(_), Rule::DraftInvariant, _) => point(coupled::choose(shaped, &randomness.noise, position)),
        (Shaped::Weights(weights), Rule::Standard, Support::Top(size)) => {
            let sparse = quantised(weights, size);
            let token = sparse.draw(randomness.numbers.bits(position));
            Drafted { token, distribution: DraftDistribution::Sparse(sparse) }
        }
        (Shaped::Weights(weights), Rule::Standard, Support::Full) => {
            let distribution = DraftDistribution::Dense(dense(weights));
            let token = law::sample(&distribution, randomness.numbers.uniform(position));
            Drafted { token, distribution }
        }
    }
}

fn point(token: TokenId) -> Drafted {
    Drafted { token, distribution: DraftDistribution::Point(token) }
}

/// The likeliest ids with integer weights in proportion. Every kept id keeps a weight of at least 1, so being kept and
/// being drawable are the same thing.
fn quantised(shaped: &ShapedWeights, size: NonZeroU32) -> SparseWeights {
    let mut kept = select::greatest(shaped.weights(), size.get() as usize);
    kept.sort_unstable_by_key(|entry| entry.index);
    let total: f64 = kept.iter().map(|entry| f64::from(entry.weight)).sum();
    let quantise = |weight: f32| ((f64::from(weight) / total * QUANTUM_COUNT).round() as u32).max(1);

    let ids = kept.iter().map(|entry| shaped.token(entry.index as usize)).collect();
    let weights = kept.iter().map(|entry| quantise(entry.weight)).collect();
    SparseWeights::new(ids, weights).expect("a shaped row has weight, its ids ascend, and no kept weight is 0")
}

/// Every id with its probability in f32, in the target's numbering.
fn dense(shaped: &ShapedWeights) -> DenseWeights {
    let probabilities = shaped.weights().iter().map(|weight| (f64::from(*weight) / shaped.total()) as f32);
    let values = match shaped.ids() {
        None => probabilities.collect(),
        Some(ids) => {
            let mut values = vec![0.0; ids.last().map_or(0, |id| *id as usize + 1)];
            ids.iter().zip(probabilities).for_each(|(id, probability)| values[*id as usize] = probability);
            values
        }
    };
    DenseWeights::new(values).expect("normalised weights are probabilities that add up to 1")
}

#[cfg(test)]
mod tests;

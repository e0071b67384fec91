//! The distribution that a draft token was drawn from, as the draft claims it.
//!
//! The acceptance rule is exact for the numbers a token was *really* drawn from and for no others. So the draft draws
//! from integers, or from f32 values, and these very numbers travel: nothing is rounded, truncated or normalised
//! between the draw and the test. Ids are in the target's numbering; an id that is not mentioned has probability 0.
//!
//! Everything here comes from a peer, so constructors check it and nothing after them has to.

mod proposal;

pub use proposal::Proposal;

use crate::TokenId;
use crate::law::{BLOCK, Law};

/// Sums of dense values may miss 1 by this much: f32 rounding of a large vocabulary stays far below.
const DENSE_SUM_TOLERANCE: f64 = 1e-3;

/// q: what a draft token was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub enum DraftDistribution {
    /// Probability 1 at one token: greedy drafts, prompt lookup, drafts that cannot say more.
    Point(TokenId),
    /// Integer weights over a few ids.
    Sparse(SparseWeights),
    /// A value for every id.
    Dense(DenseWeights),
}

impl DraftDistribution {
    /// Probability of a token; 0 if the distribution does not mention it.
    pub fn probability(&self, token: TokenId) -> f64 {
        self.weight(token) / self.total()
    }
}

impl Law for DraftDistribution {
    type Number = f64;

    fn width(&self) -> usize {
        match self {
            Self::Point(token) => *token as usize + 1,
            Self::Sparse(sparse) => sparse.ids.last().map_or(0, |id| *id as usize + 1),
            Self::Dense(dense) => dense.values.len(),
        }
    }

    fn weight(&self, token: TokenId) -> f64 {
        match self {
            Self::Point(point) => f64::from(u8::from(*point == token)),
            Self::Sparse(sparse) => f64::from(sparse.weight(token)),
            Self::Dense(dense) => dense.values.get(token as usize).map_or(0.0, |value| f64::from(*value)),
        }
    }

    fn total(&self) -> f64 {
        match self {
            Self::Point(_) => 1.0,
            Self::Sparse(sparse) => sparse.total as f64,
            Self::Dense(dense) => dense.total,
        }
    }

    fn block_total(&self, block: usize) -> f64 {
        match self {
            Self::Point(token) => f64::from(u8::from(*token as usize / BLOCK == block)),
            Self::Sparse(sparse) => sparse.block_total(block) as f64,
            Self::Dense(dense) => dense.block_totals.get(block).copied().unwrap_or(0.0),
        }
    }
}

/// `q(ids[i]) = weights[i] / total`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SparseWeights {
    ids: Vec<TokenId>,
    weights: Vec<u32>,
    total: u64,
}

impl SparseWeights {
    /// Checks that ids ascend strictly and that each has a weight of at least 1.
    pub fn new(ids: Vec<TokenId>, weights: Vec<u32>) -> Result<Self, Error> {
        if ids.len() != weights.len() {
            return Err(Error::UnequalLengths { n_ids: ids.len(), n_weights: weights.len() });
        }
        if ids.is_empty() {
            return Err(Error::Empty);
        }
        if let Some(index) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(Error::NotAscending { index: index + 1, id: ids[index + 1], before: ids[index] });
        }
        if let Some(index) = weights.iter().position(|weight| *weight == 0) {
            return Err(Error::ZeroWeight { id: ids[index] });
        }
        // At most 2^32 distinct ids of less than 2^32 each: the sum fits.
        let total = weights.iter().map(|weight| u64::from(*weight)).sum();
        Ok(Self { ids, weights, total })
    }

    /// Ids that can be drawn, ascending.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// Weight of each id, at least 1.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// Sum of the weights.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The token that 64 uniform random bits select.
    ///
    /// The bits are scaled to `0..total` by one wide multiplication. Each token gets its share of the 2^64 bit
    /// patterns up to one pattern, so its probability is off by less than 2^-64: with totals of about 2^24, a
    /// relative error below 2^-40 even for weight 1.
    pub fn draw(&self, bits: u64) -> TokenId {
        let mut rest = ((u128::from(bits) * u128::from(self.total)) >> 64) as u64;
        for (id, weight) in self.ids.iter().zip(&self.weights) {
            if rest < u64::from(*weight) {
                return *id;
            }
            rest -= u64::from(*weight);
        }
        unreachable!("the scaled bits are below the total of the weights")
    }

    fn weight(&self, token: TokenId) -> u32 {
        self.ids.binary_search(&token).map_or(0, |index| self.weights[index])
    }

    fn block_total(&self, block: usize) -> u64 {
        let start = self.ids.partition_point(|id| (*id as usize) < block * BLOCK);
        let in_block = self.ids[start..].iter().take_while(|id| **id as usize / BLOCK == block).count();
        self.weights[start..start + in_block].iter().map(|weight| u64::from(*weight)).sum()
    }
}

/// `q(id) = values[id] / sum of the values`, the sum taken in f64.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseWeights {
    values: Vec<f32>,
    block_totals: Vec<f64>,
    total: f64,
}

impl DenseWeights {
    /// Checks that values are finite, not negative, and add up to 1 within 0.001.
    pub fn new(values: Vec<f32>) -> Result<Self, Error> {
        if values.is_empty() {
            return Err(Error::Empty);
        }
        if let Some(id) = values.iter().position(|value| !value.is_finite() || *value < 0.0) {
            return Err(Error::NotAProbability { id: id as TokenId, value: values[id] });
        }
        let block_totals = crate::lanes::block_totals(&values);
        let total: f64 = block_totals.iter().sum();
        if (total - 1.0).abs() > DENSE_SUM_TOLERANCE {
            return Err(Error::NotNormalised { sum: total });
        }
        Ok(Self { values, block_totals, total })
    }

    /// Value of each id from 0.
    pub fn values(&self) -> &[f32] {
        &self.values
    }
}

/// A proposal or distribution that no honest draft sends. It says nothing about luck: the whole session is at fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Sparse ids and weights come in pairs.
    #[error("a sparse distribution has {n_ids} ids but {n_weights} weights; each id needs one weight")]
    UnequalLengths {
        /// Ids that were given.
        n_ids: usize,
        /// Weights that were given.
        n_weights: usize,
    },
    /// No token can be drawn from nothing.
    #[error("a distribution over no ids; it needs at least one")]
    Empty,
    /// Sparse ids must ascend strictly.
    #[error("id {id} at index {index} of a sparse distribution follows {before}; ids must ascend without repeats")]
    NotAscending {
        /// Index of the offending id.
        index: usize,
        /// The offending id.
        id: TokenId,
        /// The id before it.
        before: TokenId,
    },
    /// Ids without weight are left out, not sent.
    #[error("id {id} of a sparse distribution has weight 0; leave out ids that cannot be drawn")]
    ZeroWeight {
        /// The id without weight.
        id: TokenId,
    },
    /// A dense value is NaN, infinite or negative.
    #[error("the dense value of id {id} is {value}; values must be finite and not negative")]
    NotAProbability {
        /// The id with that value.
        id: TokenId,
        /// The value.
        value: f32,
    },
    /// Dense values are probabilities and must add up.
    #[error("the dense values add up to {sum}; they must add up to 1 within 0.001")]
    NotNormalised {
        /// Their sum.
        sum: f64,
    },
    /// Every proposed token needs the distribution it was drawn from.
    #[error("a proposal of {n_tokens} tokens has {n_distributions} distributions; each token needs one")]
    UnequalProposal {
        /// Tokens that were given.
        n_tokens: usize,
        /// Distributions that were given.
        n_distributions: usize,
    },
    /// An id that the target does not have.
    #[error("token {index} of a proposal or its distribution names id {id}; ids must be below {n_vocab}")]
    OutsideVocabulary {
        /// Index of the token in the proposal.
        index: usize,
        /// The highest id it names.
        id: TokenId,
        /// Size of the target's vocabulary.
        n_vocab: usize,
    },
    /// A token cannot have been drawn from a distribution that gives it probability 0.
    #[error("token {index} of a proposal is id {id}, which its own distribution gives probability 0")]
    OutsideSupport {
        /// Index of the token in the proposal.
        index: usize,
        /// The proposed id.
        id: TokenId,
    },
}

#[cfg(test)]
mod tests;

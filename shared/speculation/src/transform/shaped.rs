//! A shaped row: the numbers that accept tests, residuals, draws and log-probabilities all use.

use super::Vocabulary;
use crate::law::{self, BLOCK, Law};
use crate::{TokenId, lanes};

/// The distribution at one position after every transform.
#[derive(Clone, Debug, PartialEq)]
pub enum Shaped {
    /// Probability 1 at one token, in the target's numbering: greedy decoding.
    Point(TokenId),
    /// One weight for each entry of the row.
    Weights(ShapedWeights),
}

impl Shaped {
    /// Probability of a token in the target's numbering; 0 for ids the row does not speak for.
    pub fn probability(&self, token: TokenId) -> f64 {
        self.weight(token) / self.total()
    }
}

/// Unnormalised weights, 0 where a token was removed. `weight / total` *is* the probability: nothing downstream
/// normalises again, so every use sees the same distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapedWeights {
    /// One for each entry of the row; the greatest is 1.
    weights: Vec<f32>,
    block_totals: Vec<f64>,
    total: f64,
    /// Ids of the entries where they are not simply 0, 1, 2, ...
    ids: Option<Box<[TokenId]>>,
}

impl ShapedWeights {
    /// Weights of which at least one is positive.
    pub(super) fn new(weights: Vec<f32>, vocabulary: Vocabulary<'_>) -> Self {
        let block_totals = lanes::block_totals(&weights);
        let total = block_totals.iter().sum();
        let ids = match vocabulary {
            Vocabulary::Full => None,
            Vocabulary::Reduced(ids) => Some(Box::from(ids)),
        };
        Self { weights, block_totals, total, ids }
    }

    /// Weight of each entry of the row.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Sum of the weights.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The ids that the entries speak for; `None` where entry i speaks for id i.
    pub fn ids(&self) -> Option<&[TokenId]> {
        self.ids.as_deref()
    }

    /// The id that an entry speaks for.
    pub fn token(&self, index: usize) -> TokenId {
        self.ids.as_ref().map_or(index as TokenId, |ids| ids[index])
    }

    /// Probability of a token in the target's numbering; 0 for ids the row does not speak for.
    pub fn probability(&self, token: TokenId) -> f64 {
        self.weight(token) / self.total
    }

    fn weight(&self, token: TokenId) -> f64 {
        let index = match &self.ids {
            None => Some(token as usize),
            Some(ids) => ids.binary_search(&token).ok(),
        };
        index.and_then(|index| self.weights.get(index)).map_or(0.0, |weight| f64::from(*weight))
    }

    fn width(&self) -> usize {
        match &self.ids {
            None => self.weights.len(),
            Some(ids) => ids.last().map_or(0, |id| *id as usize + 1),
        }
    }

    fn block_total(&self, block: usize) -> f64 {
        match &self.ids {
            None => self.block_totals.get(block).copied().unwrap_or(0.0),
            Some(_) => law::ids_of_block(block, self.width()).map(|token| self.weight(token)).sum(),
        }
    }
}

impl Law for Shaped {
    type Number = f64;

    fn width(&self) -> usize {
        match self {
            Self::Point(token) => *token as usize + 1,
            Self::Weights(weights) => weights.width(),
        }
    }

    fn weight(&self, token: TokenId) -> f64 {
        match self {
            Self::Point(point) => f64::from(u8::from(*point == token)),
            Self::Weights(weights) => weights.weight(token),
        }
    }

    fn total(&self) -> f64 {
        match self {
            Self::Point(_) => 1.0,
            Self::Weights(weights) => weights.total,
        }
    }

    fn block_total(&self, block: usize) -> f64 {
        match self {
            Self::Point(token) => f64::from(u8::from(*token as usize / BLOCK == block)),
            Self::Weights(weights) => weights.block_total(block),
        }
    }
}

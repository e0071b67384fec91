//! From a row of logits to the distribution that a token is drawn from: transform spec 1.
//!
//! Speculation is exact for whatever distribution p the rule is given. That p is the one the *client asked for* only if
//! every transform is applied at every position: accepted, corrected, bonus and plain tokens alike, with a history that
//! counts each draft token before the position once and no rejected token ever. So there is one function for all of
//! them, [`Transforms::shape`], and both services call it.
//!
//! The order is fixed: logit bias, bans (end tokens before `min_tokens`, ids outside the [`Mask`]), repetition, presence and
//! frequency penalty, temperature, min-p, top-k, top-p, renormalise. So what is cut is cut among the ids that are allowed,
//! and a mask of one id makes it certain. Ties go to the lowest id. Where the Hugging Face processors define
//! the same thing, the definition is theirs, and `tests/golden` holds their results. A temperature below 1e-5 is
//! greedy: the arg max after bias, bans and penalties.

mod adjust;
mod counts;
mod cut;
mod mask;
mod params;
mod raw;
mod shaped;

pub use counts::TokenCounts;
pub use mask::Mask;
pub use params::{Invalid, InvalidField, SamplingParams};
pub use raw::RawLogprobs;
pub use shaped::{Shaped, ShapedWeights};

use crate::{TokenId, lanes};

/// Below this temperature decoding is greedy.
const GREEDY_BELOW: f32 = 1e-5;

/// Checked sampling parameters for one vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Transforms {
    params: SamplingParams,
    n_vocab: usize,
}

impl Transforms {
    /// Checks every field and reports all that are out of range. `n_vocab` is the size of the target's vocabulary.
    pub fn new(params: SamplingParams, n_vocab: usize) -> Result<Self, Invalid> {
        params.check(n_vocab)?;
        Ok(Self { params, n_vocab })
    }

    /// The parameters as they were given.
    pub fn params(&self) -> &SamplingParams {
        &self.params
    }

    /// The size of the target's vocabulary that they were checked for.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Whether every distribution is a point mass at the arg max.
    pub fn is_greedy(&self) -> bool {
        self.params.temperature < GREEDY_BELOW
    }

    /// The distribution of the token that follows `committed` and then `pending`.
    ///
    /// `logits` is the model's row for that position and serves as scratch: its contents are undefined afterwards.
    /// `pending` holds the draft tokens between the committed prefix and this position. `mask` holds what may follow them,
    /// where not everything may. Rows of ids that the vocabulary does not have (padding of the model's head) are never
    /// looked at.
    pub fn shape(
        &self,
        logits: &mut [f32],
        vocabulary: Vocabulary<'_>,
        committed: &TokenCounts,
        pending: &[TokenId],
        mask: Option<&Mask>,
    ) -> Result<Shaped, Error> {
        let vocabulary = vocabulary.within(self.n_vocab);
        let logits = vocabulary.rows(logits, self.n_vocab)?;

        let mut scan = lanes::scan(logits);
        if !scan.sound {
            return Err(first_non_finite(logits, vocabulary));
        }
        let mut row = adjust::Row { logits, vocabulary };
        if row.adjust(&self.params, committed, pending, mask) {
            scan = lanes::scan(row.logits);
        }
        if scan.max == f32::NEG_INFINITY {
            return Err(Error::NothingLeft);
        }

        if self.is_greedy() {
            let index = lanes::first_index_of(row.logits, scan.max).ok_or(Error::NothingLeft)?;
            return Ok(Shaped::Point(vocabulary.token(index)));
        }
        let mut weights = Vec::new();
        lanes::exponentials(row.logits, scan.max, self.params.temperature.recip(), &mut weights);
        cut::cut(&mut weights, &self.params);
        Ok(Shaped::Weights(ShapedWeights::new(weights, vocabulary)))
    }
}

/// Which ids the entries of a row of logits speak for.
#[derive(Clone, Copy, Debug)]
pub enum Vocabulary<'a> {
    /// Entry i speaks for id i. Ids past the end of the row have probability 0.
    Full,
    /// Entry i speaks for the i-th of these ids, which ascend strictly. All others have probability 0.
    Reduced(&'a [TokenId]),
}

impl<'a> Vocabulary<'a> {
    /// The id of an entry.
    fn token(self, index: usize) -> TokenId {
        match self {
            Self::Full => index as TokenId,
            Self::Reduced(ids) => ids[index],
        }
    }

    /// The entry of an id.
    fn index(self, token: TokenId) -> Option<usize> {
        match self {
            Self::Full => Some(token as usize),
            Self::Reduced(ids) => ids.binary_search(&token).ok(),
        }
    }

    /// The same without ids from `n_vocab` up.
    fn within(self, n_vocab: usize) -> Self {
        match self {
            Self::Full => Self::Full,
            Self::Reduced(ids) => Self::Reduced(&ids[..ids.partition_point(|id| (*id as usize) < n_vocab)]),
        }
    }

    /// The entries of a row that speak for ids of the vocabulary.
    fn rows(self, logits: &mut [f32], n_vocab: usize) -> Result<&mut [f32], Error> {
        let (n_logits, n_ids) = (logits.len(), self.n_rows(logits.len(), n_vocab));
        logits.get_mut(..n_ids).ok_or(Error::RowTooShort { n_logits, n_ids })
    }

    /// How many entries of a row speak for ids of the vocabulary.
    fn n_rows(self, n_logits: usize, n_vocab: usize) -> usize {
        match self {
            Self::Full => n_vocab.min(n_logits),
            Self::Reduced(ids) => ids.len(),
        }
    }
}

/// A row that no token can be drawn from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// NaN or plus infinity. Minus infinity is allowed: probability 0.
    #[error("the logit of token {token} is {value}; the model's output is unusable, check its weights and dtype")]
    NonFinite {
        /// The first id with such a logit.
        token: TokenId,
        /// The logit.
        value: f32,
    },
    /// Every token is banned or has probability 0.
    #[error(
        "no token is left to choose: all are banned or have probability 0; relax min_tokens, the logit bias or the grammar"
    )]
    NothingLeft,
    /// It is not known which ids may be chosen.
    #[error("{0}")]
    NoMask(String),
    /// Fewer logits than ids.
    #[error("a row of {n_logits} logits for a vocabulary of {n_ids} ids; each id needs a logit")]
    RowTooShort {
        /// Logits in the row.
        n_logits: usize,
        /// Ids that need one.
        n_ids: usize,
    },
}

fn first_non_finite(logits: &[f32], vocabulary: Vocabulary<'_>) -> Error {
    let unusable = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
    let index = logits.iter().position(unusable).unwrap_or(0);
    Error::NonFinite { token: vocabulary.token(index), value: logits[index] }
}

#[cfg(test)]
mod tests;

//! Log-probabilities for people and evaluations: what the model itself says, before the client's transforms.

use super::{Error, Vocabulary, first_non_finite};
use crate::{TokenId, lanes};

/// The log-softmax of a row of logits as the model gave it: no bias, no penalty, temperature 1, nothing cut off.
#[derive(Clone, Copy, Debug)]
pub struct RawLogprobs<'a> {
    logits: &'a [f32],
    vocabulary: Vocabulary<'a>,
    log_total: f64,
}

impl<'a> RawLogprobs<'a> {
    /// Of the model's row, which must not have been shaped. Rows of ids from `n_vocab` up (padding) do not count.
    ///
    /// # Errors
    /// As [`Transforms::shape`](super::Transforms::shape).
    pub fn new(logits: &'a [f32], vocabulary: Vocabulary<'a>, n_vocab: usize) -> Result<Self, Error> {
        let vocabulary = vocabulary.within(n_vocab);
        let n_ids = vocabulary.n_rows(logits.len(), n_vocab);
        let logits = logits.get(..n_ids).ok_or(Error::RowTooShort { n_logits: logits.len(), n_ids })?;
        let scan = lanes::scan(logits);
        if !scan.sound {
            return Err(first_non_finite(logits, vocabulary));
        }
        if scan.max == f32::NEG_INFINITY {
            return Err(Error::NothingLeft);
        }
        let mut weights = Vec::new();
        lanes::exponentials(logits, scan.max, 1.0, &mut weights);
        let total: f64 = lanes::block_totals(&weights).iter().sum();
        Ok(Self { logits, vocabulary, log_total: f64::from(scan.max) + total.ln() })
    }

    /// Of a token in the target's numbering; minus infinity for ids that the row does not speak for.
    pub fn of(&self, token: TokenId) -> f32 {
        let logit = self.vocabulary.index(token).and_then(|index| self.logits.get(index));
        logit.map_or(f32::NEG_INFINITY, |&logit| self.logprob(logit))
    }

    /// The `n` most likely tokens, likeliest first, lower ids before higher ones.
    pub fn top(&self, n: usize) -> Vec<(TokenId, f32)> {
        let n = n.min(self.logits.len());
        if n == 0 {
            return Vec::new();
        }
        let by_rank = |&a: &usize, &b: &usize| self.logits[b].total_cmp(&self.logits[a]).then(a.cmp(&b));
        let mut indices: Vec<usize> = (0..self.logits.len()).collect();
        indices.select_nth_unstable_by(n - 1, by_rank);
        indices.truncate(n);
        indices.sort_unstable_by(by_rank);
        indices.into_iter().map(|index| (self.vocabulary.token(index), self.logprob(self.logits[index]))).collect()
    }

    fn logprob(&self, logit: f32) -> f32 {
        (f64::from(logit) - self.log_total) as f32
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn close(a: f32, b: f64) -> bool {
        (f64::from(a) - b).abs() < 1e-6
    }

    #[test]
    fn probabilities_come_back_as_logarithms() {
        let probabilities = [0.1_f32, 0.2, 0.3, 0.4];
        let logits = probabilities.map(|probability| probability.ln() + 7.0);
        let raw = RawLogprobs::new(&logits, Vocabulary::Full, 4).unwrap();
        for (token, probability) in probabilities.into_iter().enumerate() {
            assert!(close(raw.of(token as TokenId), f64::from(probability).ln()));
        }
        let top = raw.top(2);
        assert_eq!([top[0].0, top[1].0], [3, 2]);
        assert!(close(top[1].1, 0.3_f64.ln()));
        assert_eq!((raw.of(4), raw.top(9).len()), (f32::NEG_INFINITY, 4));
    }

    #[test]
    fn padding_does_not_count() {
        let raw = RawLogprobs::new(&[0.0, 0.0, 50.0], Vocabulary::Full, 2).unwrap();
        assert!(close(raw.of(0), 0.5_f64.ln()));
        assert_eq!(raw.top(3).len(), 2);
    }

    #[test]
    fn a_reduced_row_speaks_for_its_ids() {
        let raw = RawLogprobs::new(&[0.0, 1.0], Vocabulary::Reduced(&[3, 8]), 10).unwrap();
        assert_eq!(raw.top(1)[0].0, 8);
        assert_eq!(raw.of(4), f32::NEG_INFINITY);
        assert!(close(raw.of(3), -(1.0 + 1.0_f64.exp()).ln()));
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        let raw = RawLogprobs::new(&[1.0, 5.0, 5.0, 5.0], Vocabulary::Full, 4).unwrap();
        assert_eq!(raw.top(2).iter().map(|top| top.0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn what_is_impossible_is_minus_infinity_and_what_is_unusable_an_error() {
        let raw = RawLogprobs::new(&[0.0, f32::NEG_INFINITY], Vocabulary::Full, 2).unwrap();
        assert_eq!((raw.of(0), raw.of(1)), (0.0, f32::NEG_INFINITY));
        for row in [[f32::NAN, 0.0], [f32::INFINITY, 0.0], [f32::NEG_INFINITY; 2]] {
            assert!(RawLogprobs::new(&row, Vocabulary::Full, 2).is_err());
        }
    }
}

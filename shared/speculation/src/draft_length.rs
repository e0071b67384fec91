//! What a draft length is worth.
//!
//! A longer proposal commits more tokens if it passes and costs more if it does not. With the same acceptance rate a at
//! every position, a round of k draft tokens commits (1 - a^(k+1)) / (1 - a) tokens on average (Leviathan, Kalman,
//! Matias, 2023, equation 1). Measured rates differ from position to position, and a position only counts if those
//! before it passed, so here the powers of a become products of the rates of the positions: the *survival*.
//!
//! Rates also differ from text to text. A draft knows before it draws how sure it is, and that is a fair forecast of
//! whether its token will pass ([`confidence`]), so a proposal can end where going on would not pay, without looking at any
//! token that was drawn.

use std::time::Duration;

use crate::lanes;

/// Tokens that a round commits on average, the corrected or bonus token included.
///
/// `acceptance[i]` is the share of tested draft tokens at position i of a round that passed, from 0 to 1. Its length
/// is the draft length; with no positions a round is a plain step and commits one token.
pub fn expected_tokens_per_round(acceptance: &[f64]) -> f64 {
    let survival = acceptance.iter().scan(1.0, |survival, rate| {
        *survival *= rate;
        Some(*survival)
    });
    1.0 + survival.sum::<f64>()
}

/// How sure a model is of the next token: the probability of the likeliest one at temperature 1, before any transform.
///
/// `logits` is the model's row as it came out, of at least one entry. The result depends on nothing that is drawn from the
/// row, so ending a proposal by it leaves every test of a draft token unconditioned.
pub fn confidence(logits: &[f32]) -> f64 {
    let mut weights = Vec::new();
    lanes::exponentials(logits, lanes::scan(logits).max, 1.0, &mut weights);
    // The likeliest token has weight 1.
    lanes::block_totals(&weights).iter().sum::<f64>().recip()
}

/// What one round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTimes {
    /// A step of the target for one token, without speculation.
    pub plain_step: Duration,
    /// A step of the target that verifies the whole proposal.
    pub verify: Duration,
    /// Everything a round waits for before verifying: drafting the whole proposal, and its way over the network.
    pub draft: Duration,
}

/// How many times faster than plain decoding a sequence runs: the tokens of a round over the plain steps that fit into
/// its time (Leviathan, Kalman, Matias, 2023, theorem 3.8, with measured times in the place of the cost coefficient).
/// Below 1 speculation does not pay.
pub fn predicted_speed_up(acceptance: &[f64], times: RoundTimes) -> f64 {
    let round = times.verify + times.draft;
    expected_tokens_per_round(acceptance) * times.plain_step.as_secs_f64() / round.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: f64) -> Duration {
        Duration::from_secs_f64(count * 1e-3)
    }

    #[test]
    fn equal_rates_give_the_closed_form() {
        for rate in [0.0, 0.3, 0.8, 0.99] {
            for length in 0..6 {
                let closed = (1.0 - f64::powi(rate, length + 1)) / (1.0 - rate);
                let summed = expected_tokens_per_round(&vec![rate; length as usize]);
                assert!((closed - summed).abs() < 1e-12, "rate {rate}, length {length}");
            }
        }
    }

    #[test]
    fn a_position_counts_only_if_those_before_it_passed() {
        assert_eq!(expected_tokens_per_round(&[]), 1.0);
        assert_eq!(expected_tokens_per_round(&[0.5, 0.5]), 1.75);
        assert_eq!(expected_tokens_per_round(&[0.0, 1.0, 1.0]), 1.0);
        assert_eq!(expected_tokens_per_round(&[1.0; 4]), 5.0);
        // Four positions that each pass six times in ten.
        assert!((expected_tokens_per_round(&[0.6; 4]) - 2.3056).abs() < 1e-12);
    }

    #[test]
    fn confidence_is_the_greatest_probability() {
        assert_eq!(confidence(&[3.0]), 1.0);
        let logits: Vec<f32> = [0.5_f32, 0.3, 0.2].iter().map(|probability| 7.0 + probability.ln()).collect();
        assert!((confidence(&logits) - 0.5).abs() < 1e-6);
        assert!((confidence(&[0.0; 1000]) - 1e-3).abs() < 1e-9);
        assert_eq!(confidence(&[f32::NEG_INFINITY, 0.0]), 1.0);
    }

    #[test]
    fn speed_up_follows_theorem_3_8() {
        let (rate, length, cost) = (0.8, 5, 0.05);
        let times = RoundTimes {
            plain_step: milliseconds(10.0),
            verify: milliseconds(10.0),
            draft: milliseconds(10.0 * cost * f64::from(length)),
        };
        let closed = (1.0 - f64::powi(rate, length + 1)) / ((1.0 - rate) * (f64::from(length) * cost + 1.0));
        let predicted = predicted_speed_up(&vec![rate; length as usize], times);
        assert!((predicted - closed).abs() < 1e-6, "{predicted} against {closed}");
    }

    #[test]
    fn a_useless_draft_slows_down() {
        let times = RoundTimes { plain_step: milliseconds(20.0), verify: milliseconds(20.0), draft: milliseconds(8.0) };
        assert!((predicted_speed_up(&[0.0; 4], times) - 20.0 / 28.0).abs() < 1e-9);
        assert!((predicted_speed_up(&[1.0; 4], times) - 5.0 * 20.0 / 28.0).abs() < 1e-9);
    }
}

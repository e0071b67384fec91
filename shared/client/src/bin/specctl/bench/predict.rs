//! What speculation could bring at best, from quantities that are measured apart from the speed itself: the acceptance at
//! each position, and what the parts of a round take ([`specfleet_speculation::draft_length`] has the formula).

use std::time::Duration;

use serde::Serialize;
use specfleet_speculation::draft_length::{self, expected_tokens_per_round, predicted_speed_up};

use crate::acceptance::Acceptance;
use crate::round_times::RoundTimes;

/// A ratio that was predicted, beside the one that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Prediction {
    /// Expected tokens of a round with a proposal of the measured mean length.
    pub(super) tokens_per_round: f64,
    /// Speculative over plain tokens/s of a stream.
    pub(super) ratio: f64,
    /// The same if the network took no time.
    pub(super) ratio_without_network: f64,
    /// The measured ratio in percent of `ratio`.
    pub(super) reached_percent: f64,
}

impl Prediction {
    /// `None` when a side has no step or no time.
    pub(super) fn of(
        acceptance: &Acceptance,
        round: Option<&RoundTimes>,
        plain_step: Option<&RoundTimes>,
        measured_ratio: f64,
    ) -> Option<Self> {
        let (round, plain_step) = (round?, plain_step?);
        if round.verify_ms <= 0.0 || acceptance.speculative_rounds == 0 {
            return None;
        }
        let by_position = acceptance.by_position();
        let at_mean_length = |figure: &dyn Fn(&[f64]) -> f64| {
            between_lengths(acceptance.mean_draft_length(), |length| {
                figure(&by_position[..length.min(by_position.len())])
            })
        };
        let tokens_per_round = at_mean_length(&expected_tokens_per_round);
        // The times are means over all steps, those without a proposal included, which bring one token each.
        let share_of_rounds = acceptance.share_of_rounds();
        let tokens_per_step = 1.0 + share_of_rounds * (tokens_per_round - 1.0);
        let ratio_if_waiting = |wait_ms: f64| {
            let times = draft_length::RoundTimes {
                plain_step: millis(plain_step.total_ms),
                verify: millis(round.verify_ms),
                draft: millis(wait_ms),
            };
            at_mean_length(&|by_position| predicted_speed_up(by_position, times)) * tokens_per_step / tokens_per_round
        };
        let ratio = ratio_if_waiting(round.draft_ms + round.network_ms);
        Some(Self {
            tokens_per_round,
            ratio,
            ratio_without_network: ratio_if_waiting(round.draft_ms),
            reached_percent: 100.0 * measured_ratio / ratio,
        })
    }
}

/// A figure of whole draft lengths, at a mean length: linear between its two neighbours, as if each round had one of them.
fn between_lengths(mean_length: f64, figure: impl Fn(usize) -> f64) -> f64 {
    let (below, share_above) = (mean_length.floor() as usize, mean_length.fract());
    figure(below) * (1.0 - share_above) + figure(below + 1) * share_above
}

fn millis(millis: f64) -> Duration {
    Duration::from_secs_f64(millis.max(0.0) / 1000.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mean_length_lies_between_its_neighbours() {
        let squares = |length: usize| (length * length) as f64;
        assert_eq!(between_lengths(3.0, squares), 9.0);
        assert_eq!(between_lengths(1.5, squares), 2.5);
    }

    #[test]
    fn a_round_of_known_parts_gives_a_known_ratio() {
        let acceptance = Acceptance {
            speculative_rounds: 10,
            proposed: 20,
            tested_per_position: vec![10, 5],
            accepted_per_position: vec![5, 2],
            ..Acceptance::default()
        };
        let plain = RoundTimes { total_ms: 10.0, verify_ms: 9.0, ..RoundTimes::default() };
        let round =
            RoundTimes { total_ms: 20.0, verify_ms: 11.0, draft_ms: 4.0, network_ms: 1.0, ..RoundTimes::default() };
        let prediction = Prediction::of(&acceptance, Some(&round), Some(&plain), 0.9).unwrap();
        // 1 + 0.5 + 0.5 * 0.4 tokens in 16 ms, against one in 10 ms.
        assert!((prediction.tokens_per_round - 1.7).abs() < 1e-9);
        assert!((prediction.ratio - 1.0625).abs() < 1e-9);
        assert!((prediction.ratio_without_network - 1.7 / 1.5).abs() < 1e-9);
        assert!((prediction.reached_percent - 90.0 / 1.0625).abs() < 1e-9);
    }

    #[test]
    fn plain_steps_bring_one_token_each() {
        let acceptance = Acceptance {
            speculative_rounds: 10,
            plain_steps: 30,
            proposed: 20,
            tested_per_position: vec![10, 5],
            accepted_per_position: vec![5, 2],
            ..Acceptance::default()
        };
        let times = RoundTimes { total_ms: 10.0, verify_ms: 10.0, ..RoundTimes::default() };
        let prediction = Prediction::of(&acceptance, Some(&times), Some(&times), 1.0).unwrap();
        // A quarter of the steps brings 1.7 tokens, the others one.
        assert!((prediction.ratio - 1.175).abs() < 1e-9);
    }

    #[test]
    fn without_proposals_there_is_no_prediction() {
        let times = RoundTimes { total_ms: 10.0, verify_ms: 9.0, ..RoundTimes::default() };
        assert_eq!(Prediction::of(&Acceptance::default(), Some(&times), Some(&times), 1.0), None);
        assert_eq!(Prediction::of(&Acceptance::default(), None, Some(&times), 1.0), None);
    }
}

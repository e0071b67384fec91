//! Where the time of a round goes, from the verifier's own timings.

use serde::Serialize;
use specfleet_client::v1::RequestTimings;

/// Milliseconds of one decoding step, on average. A step is a round or a plain step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct RoundTimes {
    /// The whole step.
    pub(crate) total_ms: f64,
    /// The target's forward pass.
    pub(crate) verify_ms: f64,
    /// The draft's forward passes, while the verifier waited for them.
    pub(crate) draft_ms: f64,
    /// The rest of the wait for a proposal.
    pub(crate) network_ms: f64,
    /// All else: sampling, acceptance, scheduling, detokenising, sending.
    pub(crate) other_ms: f64,
    /// `other_ms` in percent of `total_ms`.
    pub(crate) other_percent: f64,
}

impl RoundTimes {
    /// The average over all steps of these requests; `None` when there was no step.
    pub(crate) fn of<'a>(timings: impl IntoIterator<Item = &'a RequestTimings>) -> Option<Self> {
        let mut steps = 0_u64;
        let [mut total, mut verify, mut draft, mut network] = [0_u64; 4];
        for request in timings {
            steps += u64::from(request.decode_steps);
            total += request.decode_micros;
            verify += request.verify_micros;
            draft += request.draft_micros;
            network += request.network_micros;
        }
        if steps == 0 {
            return None;
        }
        let other = total.saturating_sub(verify + draft + network);
        let per_step = |micros: u64| micros as f64 / 1000.0 / steps as f64;
        Some(Self {
            total_ms: per_step(total),
            verify_ms: per_step(verify),
            draft_ms: per_step(draft),
            network_ms: per_step(network),
            other_ms: per_step(other),
            other_percent: if total == 0 { 0.0 } else { 100.0 * other as f64 / total as f64 },
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn steps_weigh_the_same_whatever_request_they_belong_to() {
        let long = RequestTimings {
            decode_micros: 30_000,
            verify_micros: 18_000,
            draft_micros: 6_000,
            network_micros: 3_000,
            decode_steps: 3,
            ..RequestTimings::default()
        };
        let short = RequestTimings { decode_micros: 10_000, verify_micros: 10_000, decode_steps: 1, ..long };
        let short = RequestTimings { draft_micros: 0, network_micros: 0, ..short };
        let times = RoundTimes::of([&long, &short]).unwrap();
        assert_eq!(times.total_ms, 10.0);
        assert_eq!(times.verify_ms, 7.0);
        assert_eq!(times.draft_ms, 1.5);
        assert_eq!(times.network_ms, 0.75);
        assert_eq!(times.other_ms, 0.75);
        assert_eq!(times.other_percent, 7.5);
    }

    #[test]
    fn no_steps_no_times() {
        assert_eq!(RoundTimes::of([&RequestTimings::default()]), None);
    }
}

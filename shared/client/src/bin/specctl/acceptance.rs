//! How often a draft was right, added up over any number of requests.

use std::collections::BTreeMap;

use serde::Serialize;
use specfleet_client::v1::SpeculationReport;

/// Sums of speculation reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Acceptance {
    /// Rounds that tested a proposal.
    pub(crate) speculative_rounds: u64,
    pub(crate) plain_steps: u64,
    pub(crate) plain_reasons: BTreeMap<String, u64>,
    pub(crate) dropped_proposals: BTreeMap<String, u64>,
    pub(crate) proposed: u64,
    pub(crate) accepted: u64,
    pub(crate) corrected: u64,
    pub(crate) bonus: u64,
    pub(crate) tested_per_position: Vec<u64>,
    pub(crate) accepted_per_position: Vec<u64>,
}

impl Acceptance {
    pub(crate) fn of<'a>(reports: impl IntoIterator<Item = &'a SpeculationReport>) -> Self {
        let mut sum = Self::default();
        sum.add_all(reports);
        sum
    }

    pub(crate) fn add_all<'a>(&mut self, reports: impl IntoIterator<Item = &'a SpeculationReport>) {
        reports.into_iter().for_each(|report| self.add(report));
    }

    fn add(&mut self, report: &SpeculationReport) {
        // Position 0 is tested by exactly the rounds that have a proposal.
        self.speculative_rounds += u64::from(report.tested_per_position.first().copied().unwrap_or(0));
        self.plain_steps += u64::from(report.plain_steps);
        self.proposed += u64::from(report.proposed);
        self.accepted += u64::from(report.accepted);
        self.corrected += u64::from(report.corrected);
        self.bonus += u64::from(report.bonus);
        add_reasons(&mut self.plain_reasons, &report.plain_reasons);
        add_reasons(&mut self.dropped_proposals, &report.dropped_proposals);
        add_positions(&mut self.tested_per_position, &report.tested_per_position);
        add_positions(&mut self.accepted_per_position, &report.accepted_per_position);
    }

    /// At index i: of the rounds that tested position i, the share that accepted it.
    pub(crate) fn by_position(&self) -> Vec<f64> {
        let positions = self.tested_per_position.iter().zip(&self.accepted_per_position);
        positions.filter(|(tested, _)| **tested > 0).map(|(tested, accepted)| share(*accepted, *tested)).collect()
    }

    /// The share of steps that tested a proposal.
    pub(crate) fn share_of_rounds(&self) -> f64 {
        share(self.speculative_rounds, self.speculative_rounds + self.plain_steps)
    }

    /// Draft tokens accepted in a round with a proposal, on average.
    pub(crate) fn accepted_per_round(&self) -> f64 {
        share(self.accepted, self.speculative_rounds)
    }

    /// Tokens of a proposal, on average.
    pub(crate) fn mean_draft_length(&self) -> f64 {
        share(self.proposed, self.speculative_rounds)
    }
}

/// `part / whole`, 0 for nothing of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn add_reasons(sum: &mut BTreeMap<String, u64>, reasons: &BTreeMap<String, u32>) {
    for (reason, count) in reasons {
        *sum.entry(reason.clone()).or_default() += u64::from(*count);
    }
}

fn add_positions(sum: &mut Vec<u64>, counts: &[u32]) {
    sum.resize(sum.len().max(counts.len()), 0);
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum += u64::from(*count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_different_lengths_add_up() {
        let short = SpeculationReport {
            proposed: 4,
            accepted: 3,
            tested_per_position: vec![4],
            accepted_per_position: vec![3],
            plain_reasons: [("late".to_owned(), 2)].into(),
            ..SpeculationReport::default()
        };
        let long = SpeculationReport {
            proposed: 12,
            accepted: 6,
            tested_per_position: vec![6, 5],
            accepted_per_position: vec![5, 1],
            plain_reasons: [("budget".to_owned(), 1), ("late".to_owned(), 1)].into(),
            ..SpeculationReport::default()
        };
        let sum = Acceptance::of([&short, &long]);
        assert_eq!(sum.by_position(), [0.8, 0.2]);
        assert_eq!(sum.speculative_rounds, 10);
        assert_eq!(sum.accepted_per_round(), 0.9);
        assert_eq!(sum.mean_draft_length(), 1.6);
        assert_eq!(sum.plain_reasons, [("budget".to_owned(), 1), ("late".to_owned(), 3)].into());
    }

    #[test]
    fn nothing_is_nothing_and_not_a_division_by_zero() {
        let nothing = Acceptance::default();
        assert_eq!(nothing.accepted_per_round(), 0.0);
        assert!(nothing.by_position().is_empty());
    }
}

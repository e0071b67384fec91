//! What happened to one request: how long each part took and what speculation did, counted so that the numbers can be
//! added up and checked.
//!
//! The first token comes out of the prompt's own forward pass, so it belongs to the prefill and to no round. From then
//! on every token belongs to a round, and
//!
//! ```text
//! completion tokens - 1  =  accepted + corrected + bonus + plain steps
//! accepted  <=  tested  <=  proposed
//! ```
//!
//! where tokens behind the end of the request are in none of them.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_protocol::v1;
use specfleet_speculation::{
    propose::Rule,
    round::{Origin, RoundOutcome},
};

use crate::{drafting::PlainReason, wire};

/// The running account of a request.
#[derive(Debug)]
pub(crate) struct Report {
    rule: Rule,
    n_prompt: usize,
    n_generated: usize,
    n_rounds: u32,
    counts: SpeculationCounts,
    times: Times,
}

#[derive(Debug, Default)]
struct SpeculationCounts {
    versions: Vec<Arc<str>>,
    n_proposed: u32,
    n_accepted: u32,
    n_corrected: u32,
    n_bonus: u32,
    tested_per_position: Vec<u32>,
    accepted_per_position: Vec<u32>,
    plain: BTreeMap<PlainReason, u32>,
    dropped: BTreeMap<PlainReason, u32>,
}

#[derive(Debug)]
struct Times {
    arrived: Instant,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    verify: Duration,
    draft: Duration,
    network: Duration,
}

/// What a round tested.
#[derive(Debug)]
pub(crate) struct TestedProposal {
    pub(crate) version: Arc<str>,
    /// What metrics call the version.
    pub(crate) version_label: Arc<str>,
    pub(crate) n_tokens: usize,
    /// From the question to the answer.
    pub(crate) waited: Duration,
    /// Of that in the draft's forward passes, as it says.
    pub(crate) compute: Duration,
}

impl Report {
    pub(crate) fn new(rule: Rule, n_prompt: usize, arrived: Instant) -> Self {
        let times = Times {
            arrived,
            admitted: None,
            first_token: None,
            last_token: None,
            verify: Duration::ZERO,
            draft: Duration::ZERO,
            network: Duration::ZERO,
        };
        Self { rule, n_prompt, n_generated: 0, n_rounds: 0, counts: SpeculationCounts::default(), times }
    }

    /// The request runs from now on. Only the first admission counts: a pre-empted request does not queue anew.
    pub(crate) fn admitted(&mut self, now: Instant) {
        self.times.admitted.get_or_insert(now);
    }

    /// Time in the queue, once it is over.
    pub(crate) fn queued_for(&self) -> Option<Duration> {
        Some(self.times.admitted?.duration_since(self.times.arrived))
    }

    /// From arrival to the first token, once it is there.
    pub(crate) fn time_to_first_token(&self) -> Option<Duration> {
        Some(self.times.first_token?.duration_since(self.times.arrived))
    }

    /// The prompt's pass has yielded the first token.
    pub(crate) fn first_token(&mut self, now: Instant) {
        self.n_generated = 1;
        self.times.first_token = Some(now);
        self.times.last_token = Some(now);
    }

    /// A proposal was thrown away unseen.
    pub(crate) fn dropped(&mut self, reason: PlainReason) {
        *self.counts.dropped.entry(reason).or_default() += 1;
    }

    /// A target pass held rows of this request for `forward`.
    pub(crate) fn forward(&mut self, forward: Duration) {
        if self.times.first_token.is_some() {
            self.times.verify += forward;
        }
    }

    /// A round after the first token committed `outcome`.
    pub(crate) fn round(&mut self, tested: Result<&TestedProposal, PlainReason>, outcome: &RoundOutcome, now: Instant) {
        self.n_rounds += 1;
        self.n_generated += outcome.committed.len();
        self.times.last_token = Some(now);
        match tested {
            Err(reason) => *self.counts.plain.entry(reason).or_default() += 1,
            Ok(proposal) => {
                self.counts.tested(proposal, outcome);
                let compute = proposal.compute.min(proposal.waited);
                self.times.draft += compute;
                self.times.network += proposal.waited - compute;
            }
        }
    }

    pub(crate) fn usage(&self) -> v1::Usage {
        v1::Usage { prompt_tokens: wire::count(self.n_prompt), completion_tokens: wire::count(self.n_generated) }
    }

    pub(crate) fn speculation(&self) -> v1::SpeculationReport {
        let counts = &self.counts;
        let by_word = |counts: &BTreeMap<PlainReason, u32>| {
            counts.iter().map(|(reason, count)| (reason.as_str().to_owned(), *count)).collect()
        };
        v1::SpeculationReport {
            rule: v1::AcceptanceRule::from(self.rule).into(),
            draft_version_ids: counts.versions.iter().map(|version| version.to_string()).collect(),
            rounds: self.n_rounds,
            plain_steps: counts.plain.values().sum(),
            proposed: counts.n_proposed,
            accepted: counts.n_accepted,
            corrected: counts.n_corrected,
            bonus: counts.n_bonus,
            tested_per_position: counts.tested_per_position.clone(),
            accepted_per_position: counts.accepted_per_position.clone(),
            plain_reasons: by_word(&counts.plain),
            dropped_proposals: by_word(&counts.dropped),
        }
    }

    pub(crate) fn timings(&self) -> v1::RequestTimings {
        let times = &self.times;
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => wire::micros(to.duration_since(from)),
            _ => 0,
        };
        v1::RequestTimings {
            queue_micros: between(Some(times.arrived), times.admitted),
            prefill_micros: between(times.admitted, times.first_token),
            decode_micros: between(times.first_token, times.last_token),
            verify_micros: wire::micros(times.verify),
            draft_micros: wire::micros(times.draft),
            network_micros: wire::micros(times.network),
            decode_steps: self.n_rounds,
        }
    }
}

impl SpeculationCounts {
    fn tested(&mut self, proposal: &TestedProposal, outcome: &RoundOutcome) {
        if !self.versions.contains(&proposal.version) {
            self.versions.push(proposal.version.clone());
        }
        self.n_proposed += wire::count(proposal.n_tokens);
        self.n_accepted += wire::count(outcome.n_accepted);
        self.n_corrected += count_of(outcome, Origin::Corrected);
        self.n_bonus += count_of(outcome, Origin::Bonus);
        count_positions(&mut self.tested_per_position, outcome.n_tested);
        count_positions(&mut self.accepted_per_position, outcome.n_accepted);
        // Lists of one length: a position that was tested and never accepted shows as 0.
        let n_positions = self.tested_per_position.len().max(self.accepted_per_position.len());
        self.accepted_per_position.resize(n_positions, 0);
    }
}

/// Tokens of one origin in a round.
pub(crate) fn count_of(outcome: &RoundOutcome, origin: Origin) -> u32 {
    wire::count(outcome.committed.iter().filter(|token| token.origin == origin).count())
}

/// Counts each of the first `n` positions once.
fn count_positions(counts: &mut Vec<u32>, n: usize) {
    if counts.len() < n {
        counts.resize(n, 0);
    }
    for count in &mut counts[..n] {
        *count += 1;
    }
}

#[cfg(test)]
mod tests;

//! The record of one version.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use specfleet_protocol::v1;
use specfleet_speculation::{
    distribution::{DraftDistribution, Proposal},
    honesty::{Audit, Figures, Observation, Test},
    round::RoundOutcome,
};
use tracing::{error, info, warn};

use super::acceptance::{Change, Counts, Quota, Watch};

/// The label of versions that have none of their own.
const OTHER: &str = "other";

/// A draft version and its record, whichever processes serve it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) id: Arc<str>,
    /// What metrics call it: its id, as long as there are not too many of them.
    pub(crate) metrics_label: Arc<str>,
    label: String,
    /// Locked for the length of a few copies: nobody who holds it waits for anything.
    record: Mutex<Record>,
}

#[derive(Debug)]
struct Record {
    trust: Trust,
    audit: Audit,
    watch: Watch,
    n_proposed: u64,
    n_tested: u64,
    /// Of the tested ones those that were judged as point masses.
    n_points: u64,
    n_accepted: u64,
}

/// What its q is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// It is used, and audited.
    Trusted,
    /// Nothing, says the operator.
    Untrusted,
    /// Nothing, as the audit has shown.
    Quarantined { detail: String },
}

/// What an audited round has added to the figures of a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) before: Figures,
    pub(crate) figures: Figures,
}

impl Version {
    pub(super) fn new(identity: &v1::Identity, trust: Trust) -> Self {
        let record = Record {
            trust,
            audit: Audit::new(),
            watch: Watch::default(),
            n_proposed: 0,
            n_tested: 0,
            n_points: 0,
            n_accepted: 0,
        };
        let id: Arc<str> = identity.version_id.as_str().into();
        Self { metrics_label: id.clone(), id, label: identity.label.clone(), record: Mutex::new(record) }
    }

    /// One version too many: it is not believed, and it shares its series of metrics with all others of this kind.
    pub(super) fn surplus(identity: &v1::Identity) -> Self {
        Self { metrics_label: OTHER.into(), ..Self::new(identity, Trust::Untrusted) }
    }

    /// Whether its q may be used.
    pub(crate) fn is_trusted(&self) -> bool {
        self.record().trust == Trust::Trusted
    }

    /// A round of a request with this quota has tested a proposal. Says so where that raises or ends an alarm.
    pub(crate) fn count_round(&self, proposal: &Proposal, outcome: &RoundOutcome, quota: &mut Quota) {
        let (tested, accepted) = (outcome.n_tested as u64, outcome.n_accepted as u64);
        let distributions = proposal.distributions().iter().take(outcome.n_tested);
        let n_points = distributions.filter(|draft| matches!(draft, DraftDistribution::Point(_))).count();
        let mut record = self.record();
        record.n_proposed += proposal.len() as u64;
        record.n_tested += tested;
        record.n_points += n_points as u64;
        record.n_accepted += accepted;
        let change = record.watch.observe(quota.take(Counts { tested, accepted }));
        drop(record);
        match change {
            Some(change @ Change::Fell { .. }) => warn!(
                version = &*self.id,
                label = self.label,
                "{change}. The output is as right as before, and slower. Other prompts or a higher temperature do this; if \
                 the traffic is the same, look at the draft"
            ),
            Some(change @ Change::Recovered) => info!(version = &*self.id, label = self.label, "{change}"),
            None => {}
        }
    }

    /// Takes in what a round has shown, and quarantines the version if that refutes its claim.
    pub(crate) fn audit(&self, observations: &[Observation]) -> Standing {
        let mut record = self.record();
        let before = record.audit.figures();
        observations.iter().for_each(|observation| record.audit.observe(observation));
        let figures = record.audit.figures();
        let mut refutation = None;
        if let (Trust::Trusted, Some(test)) = (&record.trust, record.audit.failed()) {
            let detail = Refutation { test, figures }.to_string();
            record.trust = Trust::Quarantined { detail: detail.clone() };
            // Point masses pass more seldom: that is another usual.
            record.watch = Watch::default();
            refutation = Some(detail);
        }
        let standing = Standing { before, figures };
        drop(record);
        if let Some(detail) = refutation {
            error!(
                version = &*self.id,
                label = self.label,
                "draft version quarantined: {detail}. From now on its tokens are judged as point masses, which is exact \
                 whatever it reports and accepts fewer. Upgrade the draft; to keep the version quarantined over a restart \
                 use --untrusted-draft {}",
                self.id
            );
        }
        standing
    }

    pub(super) fn to_wire(&self) -> v1::DraftVersion {
        let record = self.record();
        let (trust, detail) = match &record.trust {
            Trust::Trusted => (v1::DraftTrust::Trusted, ""),
            Trust::Untrusted => (v1::DraftTrust::Untrusted, ""),
            Trust::Quarantined { detail } => (v1::DraftTrust::Quarantined, detail.as_str()),
        };
        let figures = record.audit.figures();
        v1::DraftVersion {
            version_id: self.id.to_string(),
            label: self.label.clone(),
            trust: trust.into(),
            detail: detail.to_owned(),
            tokens_proposed: record.n_proposed,
            tokens_accepted: record.n_accepted,
            honesty: Some(v1::HonestyAudit {
                positions: figures.positions,
                expected_accepted: figures.expected_accepted,
                accepted: figures.accepted,
                acceptance_evidence: figures.acceptance_evidence,
                rank_evidence: figures.rank_evidence,
                threshold: figures.threshold,
            }),
            acceptance: Some(v1::AcceptanceWatch {
                usual: record.watch.usual(),
                low_tested: record.watch.low().tested,
                low_accepted: record.watch.low().accepted,
                has_fallen: record.watch.has_fallen(),
            }),
            tokens_tested: record.n_tested,
            points_tested: record.n_points,
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says how a claim was refuted.
struct Refutation {
    test: Test,
    figures: Figures,
}

impl fmt::Display for Refutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { positions, expected_accepted, accepted, acceptance_evidence, rank_evidence, threshold } =
            self.figures;
        let (what, evidence) = match self.test {
            Test::Acceptance => ("how many tokens passed", acceptance_evidence),
            Test::Rank => ("where tokens fall in it", rank_evidence),
        };
        write!(
            f,
            "its tokens are not drawn from the q it reports, as shown by {what}: evidence {evidence:.1}, threshold \
             {threshold:.1}, after {positions} tested positions, of which {accepted} passed and {expected_accepted:.1} \
             should have"
        )
    }
}

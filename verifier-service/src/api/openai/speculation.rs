//! What this server adds to the API: how a request wants to be drafted for, and what became of it.
//!
//! ```json
//! "speculation": {"off": false, "pin": "6fc1...", "require_pin": true,
//!                 "max_draft_length": 4, "max_wait_micros": 20000, "rule": "standard"}
//! ```
//!
//! Every field may be left out. The meaning is that of `SpeculationOptions` and `SpeculationReport` in
//! `verifier.proto`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use specfleet_protocol::v1::{self, AcceptanceRule, SpeculationOptions};

/// In a request. A field that is misspelt would be a wish that nobody hears, so here unknown ones are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Speculation {
    off: bool,
    pin: Option<String>,
    require_pin: bool,
    max_draft_length: Option<u32>,
    max_wait_micros: Option<u32>,
    rule: Option<Rule>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    Standard,
    DraftInvariant,
}

impl Speculation {
    pub(super) fn to_wire(&self) -> SpeculationOptions {
        let rule = match self.rule {
            None => AcceptanceRule::Unspecified,
            Some(Rule::Standard) => AcceptanceRule::Standard,
            Some(Rule::DraftInvariant) => AcceptanceRule::DraftInvariant,
        };
        SpeculationOptions {
            off: self.off,
            pin: self.pin.clone().unwrap_or_default(),
            require_pin: self.require_pin,
            max_draft_length: self.max_draft_length,
            max_wait_micros: self.max_wait_micros,
            rule: rule.into(),
        }
    }

    /// Whether the request is decoded plainly.
    pub(super) fn is_off(&self) -> bool {
        self.off || self.max_draft_length == Some(0)
    }

    pub(super) fn pin(&self) -> Option<&str> {
        self.pin.as_deref().filter(|pin| !pin.is_empty())
    }
}

/// In `usage`: what speculation did for all continuations of all prompts together.
#[derive(Debug, Default, Serialize)]
pub(super) struct SpeculationUsage {
    rule: Option<Rule>,
    draft_version_ids: Vec<String>,
    rounds: u32,
    plain_steps: u32,
    proposed: u32,
    accepted: u32,
    corrected: u32,
    bonus: u32,
    tested_per_position: Vec<u32>,
    accepted_per_position: Vec<u32>,
    plain_reasons: BTreeMap<String, u32>,
    dropped_proposals: BTreeMap<String, u32>,
}

impl SpeculationUsage {
    pub(super) fn add(&mut self, report: &v1::SpeculationReport) {
        self.rule = match report.rule() {
            AcceptanceRule::Unspecified => self.rule,
            AcceptanceRule::Standard => Some(Rule::Standard),
            AcceptanceRule::DraftInvariant => Some(Rule::DraftInvariant),
        };
        for version in &report.draft_version_ids {
            if !self.draft_version_ids.contains(version) {
                self.draft_version_ids.push(version.clone());
            }
        }
        self.rounds += report.rounds;
        self.plain_steps += report.plain_steps;
        self.proposed += report.proposed;
        self.accepted += report.accepted;
        self.corrected += report.corrected;
        self.bonus += report.bonus;
        add_lists(&mut self.tested_per_position, &report.tested_per_position);
        add_lists(&mut self.accepted_per_position, &report.accepted_per_position);
        for (sums, counts) in
            [(&mut self.plain_reasons, &report.plain_reasons), (&mut self.dropped_proposals, &report.dropped_proposals)]
        {
            for (reason, count) in counts {
                *sums.entry(reason.clone()).or_default() += count;
            }
        }
    }
}

fn add_lists(sums: &mut Vec<u32>, counts: &[u32]) {
    sums.resize(sums.len().max(counts.len()), 0);
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

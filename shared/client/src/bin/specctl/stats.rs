//! What `--stats` says about one answer, for people and as JSON.

use std::fmt;

use serde::Serialize;

use crate::acceptance::{Acceptance, share};
use crate::json;
use crate::observe::Observed;
use crate::round_times::RoundTimes;
use crate::text::{list, percentages, short_id};

/// Speed and speculation of one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Stats {
    tokens: usize,
    tokens_per_second: Option<f64>,
    time_to_first_token_ms: Option<f64>,
    prompt_tokens: u32,
    reused_prompt_tokens: u32,
    target_version_id: String,
    /// Absent when the request was stopped: the rest is in the verifier's last message.
    report: Option<Report>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Report {
    rule: String,
    draft_version_ids: Vec<String>,
    accepted_per_round: f64,
    acceptance_by_position: Vec<f64>,
    #[serde(flatten)]
    acceptance: Acceptance,
    round: Option<RoundTimes>,
}

impl Stats {
    pub(crate) fn of(observed: &Observed) -> Self {
        let started = observed.started.clone().unwrap_or_default();
        Self {
            tokens: observed.n_tokens(),
            tokens_per_second: observed.tokens_per_second(),
            time_to_first_token_ms: observed.time_to_first_token().map(|time| time.as_secs_f64() * 1000.0),
            prompt_tokens: started.prompt_tokens,
            reused_prompt_tokens: started.reused_prompt_tokens,
            target_version_id: started.target_version_id,
            report: observed.finished.is_some().then(|| Report::of(observed)),
        }
    }
}

impl Report {
    fn of(observed: &Observed) -> Self {
        let speculation = observed.speculation();
        let acceptance = Acceptance::of([&speculation]);
        Self {
            rule: json::rule(speculation.rule()),
            draft_version_ids: speculation.draft_version_ids,
            accepted_per_round: acceptance.accepted_per_round(),
            acceptance_by_position: acceptance.by_position(),
            acceptance,
            round: RoundTimes::of([&observed.timings()]),
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tokens      {}", self.tokens)?;
        if let Some(rate) = self.tokens_per_second {
            write!(formatter, " at {rate:.1} tokens/s")?;
        }
        if let Some(first) = self.time_to_first_token_ms {
            write!(formatter, ", the first after {first:.0} ms")?;
        }
        let (prompt, reused) = (self.prompt_tokens, self.reused_prompt_tokens);
        writeln!(formatter, "\nprompt      {prompt} tokens, {reused} of them known from an earlier request")?;
        writeln!(formatter, "target      {}", short_id(&self.target_version_id))?;
        match &self.report {
            Some(report) => report.fmt(formatter),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drafts: Vec<&str> = self.draft_version_ids.iter().map(|id| short_id(id)).collect();
        let drafts = if drafts.is_empty() { "none used".to_owned() } else { drafts.join(", ") };
        writeln!(formatter, "draft       {drafts}; rule {}", self.rule)?;
        let sum = &self.acceptance;
        write!(formatter, "rounds      {} with a proposal, {} plain", sum.speculative_rounds, sum.plain_steps)?;
        writeln!(formatter, "{}", reasons(sum))?;
        if sum.speculative_rounds > 0 {
            let percent = 100.0 * share(sum.accepted, sum.proposed);
            let (accepted, proposed, per_round) = (sum.accepted, sum.proposed, self.accepted_per_round);
            writeln!(
                formatter,
                "accepted    {accepted} of {proposed} proposed ({percent:.0}%), {per_round:.2} a round; {} corrected, {} bonus",
                sum.corrected, sum.bonus
            )?;
            writeln!(formatter, "by position {}", percentages(&self.acceptance_by_position))?;
        }
        match &self.round {
            Some(times) => writeln!(
                formatter,
                "a round     {:.1} ms = verify {:.1} + draft {:.1} + network {:.1} + other {:.1} ({:.0}%)",
                times.total_ms, times.verify_ms, times.draft_ms, times.network_ms, times.other_ms, times.other_percent
            ),
            None => Ok(()),
        }
    }
}

/// " (late 2, budget 1)", or nothing; dropped proposals are named after it.
fn reasons(sum: &Acceptance) -> String {
    let mut text = String::new();
    if !sum.plain_reasons.is_empty() {
        text += &format!(" ({})", list(&sum.plain_reasons));
    }
    if !sum.dropped_proposals.is_empty() {
        text += &format!("; proposals dropped: {}", list(&sum.dropped_proposals));
    }
    text
}

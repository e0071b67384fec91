//! All that an audit found, for people and as JSON.

use std::fmt::{self, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use specfleet_client::v1::VerifierServiceGetIdentityResponse;

use crate::audit::AuditArgs;
use crate::audit::check::{Check, Verdict};
use crate::fleet::Fleet;
use crate::text::short_id;

/// The JSON of `specctl audit`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    fleet: Fleet,
    pub(super) settings: Settings,
    pub(super) checks: Vec<Check>,
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Settings {
    pub(super) compare: usize,
    pub(super) max_tokens: u32,
    pub(super) samples: usize,
    pub(super) streams: usize,
    pub(super) seed: u64,
    pub(super) false_alarm: f64,
}

impl Report {
    pub(super) fn new(
        args: &AuditArgs,
        seed: u64,
        endpoint: &str,
        identity: &VerifierServiceGetIdentityResponse,
        checks: Vec<Check>,
        took: Duration,
    ) -> Self {
        Self {
            fleet: Fleet::new(endpoint, identity),
            settings: Settings {
                compare: args.compare,
                max_tokens: args.max_tokens,
                samples: args.samples,
                streams: args.streams,
                seed,
                false_alarm: args.false_alarm,
            },
            verdict: Verdict::of_all(&checks),
            checks,
            seconds: took.as_secs_f64(),
        }
    }

    /// The last line: what it comes to.
    fn summary(&self) -> String {
        let names = |verdict| {
            let mut names: Vec<_> =
                self.checks.iter().filter(|check| check.verdict == verdict).map(|check| check.name).collect();
            names.dedup();
            names.join(", ")
        };
        let (failed, not_judged, noted) = (names(Verdict::Failed), names(Verdict::NotJudged), names(Verdict::Noted));
        let mut text = match self.verdict {
            Verdict::Passed | Verdict::Noted => {
                "PASSED: with speculation the text is what the target alone would write".to_owned()
            }
            Verdict::Failed => format!("FAILED: {failed}; the text is not what it should be, or a draft is not honest"),
            Verdict::NotJudged => format!("NOT JUDGED: {not_judged}; nothing was found wrong, and too little was seen"),
        };
        if !noted.is_empty() {
            let _ = write!(text, "; noted: {noted}");
        }
        format!(
            "{text} ({:.0} s; a sound fleet fails with probability {:.0e})",
            self.seconds, self.settings.false_alarm
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (role, identity) in std::iter::once(("target", &self.fleet.target))
            .chain(self.fleet.drafts.iter().map(|draft| ("draft", draft)))
        {
            let field = |name: &str| identity[name].as_str().unwrap_or_default();
            let (label, version) = (field("label"), short_id(field("version_id")));
            writeln!(formatter, "{role:<7} {label} ({version}), {} on {}", field("dtype"), field("device"))?;
        }
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["check", "compared", "figure", "limit", "verdict"]);
        for check in &self.checks {
            table.add_row([check.name, &check.compared, &check.figure, &check.limit, check.verdict.word()]);
        }
        writeln!(formatter, "\n{table}\n")?;
        for check in self.checks.iter().filter(|check| !check.why.is_empty()) {
            writeln!(formatter, "{}: {}", check.name, check.why)?;
        }
        writeln!(formatter, "{}", self.summary())
    }
}

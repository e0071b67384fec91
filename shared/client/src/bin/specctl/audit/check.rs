//! One thing that was looked at, and what the whole comes to.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::Serialize;

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// As promised.
    Passed,
    /// Not as promised.
    Failed,
    /// Too little was seen to tell.
    NotJudged,
    /// Not as one might wish, and nothing is promised about it. Does not count.
    Noted,
}

impl Verdict {
    /// Of all checks: a failure outweighs what was not judged, and that outweighs what passed.
    pub(super) fn of_all(checks: &[Check]) -> Self {
        let any = |verdict| checks.iter().any(|check| check.verdict == verdict);
        match () {
            () if any(Self::Failed) => Self::Failed,
            () if any(Self::NotJudged) || !any(Self::Passed) => Self::NotJudged,
            () => Self::Passed,
        }
    }

    /// Apart from 1, with which every command says that it could not run, and from 2, for a command line that nobody
    /// understands.
    pub(super) fn exit_code(self) -> ExitCode {
        match self {
            Self::Passed | Self::Noted => ExitCode::SUCCESS,
            Self::Failed => ExitCode::from(3),
            Self::NotJudged => ExitCode::from(4),
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotJudged => "not judged",
            Self::Noted => "noted",
        }
    }
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// What was compared with what, and how much of it.
    pub(super) compared: String,
    /// What came of it.
    pub(super) figure: String,
    /// What `figure` must be.
    pub(super) limit: String,
    pub(super) verdict: Verdict,
    /// Why it did not pass; empty otherwise.
    pub(super) why: String,
    /// The numbers behind the texts.
    pub(super) numbers: BTreeMap<&'static str, f64>,
}

impl Check {
    /// A check that could not be made.
    pub(super) fn not_judged(name: &'static str, why: String) -> Self {
        let nothing = || "-".to_owned();
        Self {
            name,
            compared: nothing(),
            figure: nothing(),
            limit: nothing(),
            verdict: Verdict::NotJudged,
            why,
            numbers: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_a_failure_and_one_doubt_is_a_doubt() {
        use Verdict::{Failed, NotJudged, Noted, Passed};
        let all = |verdicts: &[Verdict]| {
            let check = |&verdict| Check { verdict, ..Check::not_judged("a check", String::new()) };
            Verdict::of_all(&verdicts.iter().map(check).collect::<Vec<_>>())
        };
        assert_eq!(all(&[Passed, Passed]), Passed);
        assert_eq!(all(&[Passed, Noted]), Passed);
        assert_eq!(all(&[Passed, NotJudged, Failed]), Failed);
        assert_eq!(all(&[Passed, NotJudged]), NotJudged);
        assert_eq!(all(&[Noted]), NotJudged, "nothing was shown to be right");
        assert_eq!(all(&[]), NotJudged);
    }
}

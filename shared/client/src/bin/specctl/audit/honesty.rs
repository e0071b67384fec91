//! What the verifier itself has found out about its drafts while it worked.
//!
//! It tests of every draft version whether tokens are drawn from the distribution that is reported with them, all the time
//! and with every request. A version that fails is quarantined: its tokens are judged as if they came from nowhere, so the
//! text stays exact, at less speed. Somebody should know, therefore it fails the audit while a draft serves that version.

use specfleet_client::v1::{DraftState, DraftStatus, DraftTrust, DraftVersion, HonestyAudit};

use crate::audit::check::{Check, Verdict};
use crate::text::short_id;

const NAME: &str = "honesty";

/// One check for each version that has proposed anything.
pub(super) fn checks(versions: &[DraftVersion], drafts: &[DraftStatus]) -> Vec<Check> {
    if versions.is_empty() {
        return vec![Check::not_judged(NAME, "the verifier has tested no proposal of any draft".to_owned())];
    }
    versions.iter().map(|version| check(version, is_served(version, drafts))).collect()
}

fn is_served(version: &DraftVersion, drafts: &[DraftStatus]) -> bool {
    drafts.iter().any(|draft| {
        draft.state() == DraftState::Ready
            && draft.identity.as_ref().is_some_and(|identity| identity.version_id == version.version_id)
    })
}

fn check(version: &DraftVersion, is_served: bool) -> Check {
    let honesty = version.honesty.unwrap_or_default();
    let HonestyAudit { positions, acceptance_evidence, rank_evidence, threshold, .. } = honesty;
    let (verdict, why) = match (version.trust(), is_served) {
        (DraftTrust::Trusted, _) if positions == 0 => {
            (Verdict::NotJudged, "none of its positions was audited; seeded requests are not".to_owned())
        }
        (DraftTrust::Trusted, _) => (Verdict::Passed, String::new()),
        (DraftTrust::Untrusted, _) => {
            (Verdict::Noted, "what it reports is not used, so there is nothing to audit".to_owned())
        }
        (DraftTrust::Quarantined, true) => (
            Verdict::Failed,
            format!("the version is quarantined: {}; text stays exact, at less speed", version.detail),
        ),
        (DraftTrust::Quarantined, false) => {
            (Verdict::Noted, format!("the version is quarantined, and no draft serves it now: {}", version.detail))
        }
        (DraftTrust::Unspecified, _) => {
            (Verdict::NotJudged, "the verifier does not say how far it trusts the version".to_owned())
        }
    };
    let figure = match version.trust() {
        DraftTrust::Untrusted => "untrusted: judged as point masses".to_owned(),
        _ => format!("evidence {acceptance_evidence:.1} by acceptance, {rank_evidence:.1} by rank"),
    };
    Check {
        name: NAME,
        compared: format!("draft {} ({}), {positions} positions", short_id(&version.version_id), version.label),
        figure,
        limit: format!("< {threshold:.1}"),
        verdict,
        why,
        numbers: [
            ("positions", positions as f64),
            ("accepted", honesty.accepted as f64),
            ("expected_accepted", honesty.expected_accepted),
            ("acceptance_evidence", acceptance_evidence),
            ("rank_evidence", rank_evidence),
            ("threshold", threshold),
        ]
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use specfleet_client::v1::Identity;

    use super::*;

    fn verdicts(trust: DraftTrust, served: &str) -> Vec<Verdict> {
        verdicts_on(100, trust, served)
    }

    fn verdicts_on(positions: u64, trust: DraftTrust, served: &str) -> Vec<Verdict> {
        let version = DraftVersion {
            version_id: "aaaa".to_owned(),
            trust: trust.into(),
            detail: "it lies".to_owned(),
            honesty: Some(HonestyAudit { positions, ..HonestyAudit::default() }),
            ..DraftVersion::default()
        };
        let draft = DraftStatus {
            state: DraftState::Ready.into(),
            identity: Some(Identity { version_id: served.to_owned(), ..Identity::default() }),
            ..DraftStatus::default()
        };
        checks(&[version], &[draft]).into_iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn a_version_in_quarantine_fails_while_it_is_served() {
        assert_eq!(verdicts(DraftTrust::Trusted, "aaaa"), [Verdict::Passed]);
        assert_eq!(verdicts(DraftTrust::Untrusted, "aaaa"), [Verdict::Noted]);
        assert_eq!(verdicts(DraftTrust::Quarantined, "aaaa"), [Verdict::Failed]);
        assert_eq!(verdicts(DraftTrust::Quarantined, "bbbb"), [Verdict::Noted]);
        assert_eq!(verdicts(DraftTrust::Unspecified, "aaaa"), [Verdict::NotJudged]);
    }

    #[test]
    fn a_version_that_nothing_is_known_of_does_not_pass() {
        assert_eq!(verdicts_on(0, DraftTrust::Trusted, "aaaa"), [Verdict::NotJudged]);
    }

    #[test]
    fn without_any_version_nothing_is_shown() {
        assert_eq!(checks(&[], &[])[0].verdict, Verdict::NotJudged);
    }
}

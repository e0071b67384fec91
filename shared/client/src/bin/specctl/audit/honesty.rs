//! What the verifier itself has found out about its drafts while it worked.
//!
//! It tests of every draft version whether tokens are drawn from the distribution that is reported with them, for as long as
//! it serves, with every request that draws by the standard rule and has no seed of a client. A version that fails is
//! quarantined: its tokens are judged as if they came from nowhere, so the text stays exact, at less speed. Somebody should
//! know, therefore it fails the audit while a draft serves that version.
//!
//! A version of which nothing was tested in this way must not count for an honest one. But where there is nothing to find
//! out, nothing is missing: if no draft serves the version any more, or if it has only proposed point masses, as prompt
//! lookup does, which claim nothing that could be false.

use specfleet_client::v1::{DraftState, DraftStatus, DraftTrust, DraftVersion, HonestyAudit};

use crate::audit::check::{Check, Verdict};
use crate::drafts::has_only_points;
use crate::text::short_id;

const NAME: &str = "honesty";

/// One check for each version that a session was opened with.
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
        (DraftTrust::Trusted, _) if positions > 0 => (Verdict::Passed, String::new()),
        (DraftTrust::Trusted, false) => {
            (Verdict::Noted, "none of its positions was audited, and no draft serves it now".to_owned())
        }
        (DraftTrust::Trusted, true) if has_only_points(version) => {
            (Verdict::Noted, "all of its tested tokens were point masses, which claim nothing to audit".to_owned())
        }
        (DraftTrust::Trusted, true) => {
            (Verdict::NotJudged, "none of its positions was audited; seeded requests are not".to_owned())
        }
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
        DraftTrust::Trusted if has_only_points(version) => "point masses only".to_owned(),
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
            ("tokens_tested", version.tokens_tested as f64),
            ("points_tested", version.points_tested as f64),
        ]
        .into(),
    }
}

#[cfg(test)]
mod tests {
    use specfleet_client::v1::Identity;

    use super::*;

    /// A hundred tested tokens, all of them audited.
    fn audited() -> DraftVersion {
        DraftVersion {
            version_id: "aaaa".to_owned(),
            detail: "it lies".to_owned(),
            tokens_tested: 100,
            honesty: Some(HonestyAudit { positions: 100, ..HonestyAudit::default() }),
            ..DraftVersion::default()
        }
    }

    fn unaudited(tokens_tested: u64, points_tested: u64) -> DraftVersion {
        DraftVersion { tokens_tested, points_tested, honesty: None, ..audited() }
    }

    fn verdicts(trust: DraftTrust, served: &str) -> Vec<Verdict> {
        verdicts_on(audited(), trust, served)
    }

    fn verdicts_on(version: DraftVersion, trust: DraftTrust, served: &str) -> Vec<Verdict> {
        let version = DraftVersion { trust: trust.into(), ..version };
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
        for version in [unaudited(0, 0), unaudited(100, 0), unaudited(100, 99)] {
            assert_eq!(verdicts_on(version.clone(), DraftTrust::Trusted, "aaaa"), [Verdict::NotJudged], "{version:?}");
        }
    }

    #[test]
    fn a_version_that_nobody_serves_any_more_keeps_no_fleet_from_passing() {
        for version in [unaudited(0, 0), unaudited(100, 99), unaudited(100, 100)] {
            assert_eq!(verdicts_on(version.clone(), DraftTrust::Trusted, "bbbb"), [Verdict::Noted], "{version:?}");
        }
        assert_eq!(verdicts(DraftTrust::Trusted, "bbbb"), [Verdict::Passed]);
    }

    #[test]
    fn a_version_that_proposes_points_only_keeps_no_fleet_from_passing() {
        assert_eq!(verdicts_on(unaudited(100, 100), DraftTrust::Trusted, "aaaa"), [Verdict::Noted]);
        let partly = DraftVersion { points_tested: 40, ..audited() };
        assert_eq!(verdicts_on(partly, DraftTrust::Trusted, "aaaa"), [Verdict::Passed]);
    }

    #[test]
    fn without_any_version_nothing_is_shown() {
        assert_eq!(checks(&[], &[])[0].verdict, Verdict::NotJudged);
    }
}

#![allow(clippy::unwrap_used)]

use std::str::FromStr;

use specfleet_speculation::{
    distribution::{DraftDistribution, Proposal, SparseWeights},
    honesty::Observation,
    round::RoundOutcome,
};

use super::{
    untrusted::{NotAVersion, VERSION_DIGITS},
    *,
};

fn identity(digit: char) -> v1::Identity {
    v1::Identity {
        version_id: digit.to_string().repeat(VERSION_DIGITS),
        label: "draft".to_owned(),
        ..Default::default()
    }
}

/// What a draft shows that always proposes the likeliest token and reports that others are as likely.
fn lie() -> Observation {
    Observation { expected: 0.5, accepted: true, rank: 0.1, place: 0.1 }
}

fn point() -> DraftDistribution {
    DraftDistribution::Point(1)
}

fn claim() -> DraftDistribution {
    DraftDistribution::Sparse(SparseWeights::new(vec![1, 2], vec![3, 1]).unwrap())
}

const NINE_POINTS: [DraftDistribution; 9] = [const { DraftDistribution::Point(1) }; 9];

/// A round in which so many of these were tested, and passed.
fn count_round<const N: usize>(
    version: &Version,
    drafts: [DraftDistribution; N],
    tested: [usize; 2],
    quota: &mut Quota,
) {
    let [n_tested, n_accepted] = tested;
    let proposal = Proposal::new(vec![1; N], drafts.into(), 3).unwrap();
    version.count_round(&proposal, &RoundOutcome { committed: Vec::new(), n_tested, n_accepted }, quota);
}

fn trust_of(versions: &Versions) -> Vec<v1::DraftTrust> {
    versions.list().iter().map(v1::DraftVersion::trust).collect()
}

#[test]
fn untrusted_drafts_are_named_by_version_prefix_or_all() {
    let parse = UntrustedDraft::from_str;
    assert_eq!(parse("all"), Ok(UntrustedDraft::All));
    assert_eq!(parse("0123abcd"), Ok(UntrustedDraft::Version("0123abcd".to_owned())));
    assert!(parse(&"a".repeat(VERSION_DIGITS)).is_ok());
    for bad in ["", "0123abc", "0123ABCD", "ALL", "small-draft", &"a".repeat(VERSION_DIGITS + 1)] {
        assert_eq!(parse(bad), Err(NotAVersion), "{bad}");
    }
}

#[test]
fn an_untrusted_version_is_never_believed_and_others_are() {
    let versions = Versions::new(vec!["aaaaaaaa".parse().unwrap()]);
    assert!(!versions.of(&identity('a')).is_trusted());
    assert!(versions.of(&identity('b')).is_trusted());
    assert_eq!(trust_of(&versions), [v1::DraftTrust::Untrusted, v1::DraftTrust::Trusted]);
    assert!(!Versions::new(vec![UntrustedDraft::All]).of(&identity('b')).is_trusted());
}

#[test]
fn a_version_is_one_record_whoever_serves_it() {
    let versions = Versions::new(Vec::new());
    let another = v1::Identity { incarnation: "another".to_owned(), ..identity('a') };
    count_round(&versions.of(&identity('a')), [point(), point(), point()], [3, 2], &mut Quota::of_choice(0));
    count_round(&versions.of(&another), [point(), point(), point()], [2, 1], &mut Quota::of_choice(0));
    let [version] = &versions.list()[..] else { panic!("not one version") };
    assert_eq!((version.tokens_proposed, version.tokens_tested, version.tokens_accepted), (6, 5, 3));
}

#[test]
fn tested_point_masses_are_counted_apart_from_what_claims_something() {
    let versions = Versions::new(Vec::new());
    let version = versions.of(&identity('a'));
    let counted = || versions.list().iter().map(|wire| (wire.tokens_tested, wire.points_tested)).next().unwrap();
    assert_eq!(counted(), (0, 0));
    count_round(&version, [point(), point(), claim()], [1, 0], &mut Quota::of_choice(0));
    assert_eq!(counted(), (1, 1), "the others were not tested");
    count_round(&version, [claim(), point(), claim()], [3, 2], &mut Quota::of_choice(1));
    assert_eq!(counted(), (4, 2), "of whichever continuation");
}

#[test]
fn a_refuted_version_is_quarantined_for_good_and_says_why() {
    let versions = Versions::new(Vec::new());
    let (liar, other) = (versions.of(&identity('a')), versions.of(&identity('b')));
    let mut n_positions = 0;
    while liar.is_trusted() {
        assert!(n_positions < 1000);
        liar.audit(&[lie()]);
        n_positions += 1;
    }
    assert_eq!(trust_of(&versions), [v1::DraftTrust::Quarantined, v1::DraftTrust::Trusted]);
    let wire = &versions.list()[0];
    assert!(wire.detail.contains(&format!("after {n_positions} tested positions")), "{}", wire.detail);
    let honesty = wire.honesty.unwrap();
    assert!(honesty.acceptance_evidence.max(honesty.rank_evidence) >= honesty.threshold);
    assert!(other.is_trusted());
    assert!(!versions.of(&identity('a')).is_trusted());
}

/// What is judged as point masses passes more seldom, which is no fall.
#[test]
fn a_quarantine_begins_a_past_of_its_own() {
    let versions = Versions::new(Vec::new());
    let liar = versions.of(&identity('a'));
    let usual = || versions.list()[0].acceptance.unwrap().usual;
    (0..10_000).for_each(|_| count_round(&liar, [claim(), claim()], [2, 1], &mut Quota::of_choice(0)));
    assert_eq!(usual(), Some(0.5));
    while liar.is_trusted() {
        liar.audit(&[lie()]);
    }
    assert_eq!(usual(), None);
}

/// Of each request 64 tokens count, and of several continuations those of the first.
#[test]
fn many_tokens_of_a_single_request_say_little_about_a_version() {
    let versions = Versions::new(Vec::new());
    let version = versions.of(&identity('a'));
    let usual = || versions.list()[0].acceptance.unwrap().usual;
    let request = || {
        let (mut first, mut second) = (Quota::of_choice(0), Quota::of_choice(1));
        (0..100).for_each(|_| count_round(&version, NINE_POINTS, [9, 9], &mut first));
        (0..100).for_each(|_| count_round(&version, NINE_POINTS, [1, 0], &mut second));
    };
    (0..255).for_each(|_| request());
    assert_eq!(usual(), None);
    request();
    assert_eq!(usual(), Some(1.0));
}

#[test]
fn a_draft_that_makes_up_versions_is_not_believed_and_fills_no_memory() {
    let versions = Versions::new(Vec::new());
    let made_up = |number: usize| v1::Identity { version_id: format!("{number:064x}"), ..Default::default() };
    assert!((0..MAX_VERSIONS).all(|number| versions.of(&made_up(number)).is_trusted()));
    let surplus = versions.of(&made_up(MAX_VERSIONS));
    assert_eq!((surplus.is_trusted(), &*surplus.metrics_label), (false, "other"));
    assert_eq!(*surplus.id, made_up(MAX_VERSIONS).version_id, "sessions are pinned to it all the same");
    assert_eq!(versions.list().len(), MAX_VERSIONS);
    assert!(versions.of(&made_up(7)).is_trusted(), "those that are known keep their standing");
}

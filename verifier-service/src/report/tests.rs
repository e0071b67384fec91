use specfleet_speculation::round::CommittedToken;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn outcome(origins: &[Origin], n_tested: usize) -> RoundOutcome {
    let committed = origins.iter().map(|&origin| CommittedToken { token: 7, origin }).collect();
    let n_accepted = origins.iter().filter(|&&origin| origin == Origin::Accepted).count();
    RoundOutcome { committed, n_tested, n_accepted }
}

fn proposal(n_tokens: usize) -> TestedProposal {
    TestedProposal { version: "v".into(), version_label: "v".into(), n_tokens, waited: 3 * MS, compute: 2 * MS }
}

/// Flags [T,F,T] and [T,T,T] with a bonus: the leading run counts, correction and bonus stand apart.
#[test]
fn flags_behind_the_first_rejection_do_not_count() {
    use Origin::{Accepted, Bonus, Corrected};
    let start = Instant::now();
    let mut report = Report::new(Rule::Standard, 4, start);
    report.first_token(start);
    report.round(Ok(&proposal(3)), &outcome(&[Accepted, Corrected], 2), start);
    report.round(Ok(&proposal(3)), &outcome(&[Accepted, Accepted, Accepted, Bonus], 3), start);
    let wire = report.speculation();
    assert_eq!((wire.proposed, wire.accepted, wire.corrected, wire.bonus), (6, 4, 1, 1));
    assert_eq!(wire.tested_per_position, [2, 2, 1]);
    assert_eq!(wire.accepted_per_position, [2, 1, 1]);
    assert_eq!(report.usage().completion_tokens, 1 + 6);
    assert_eq!(wire.draft_version_ids, ["v"]);
}

#[test]
fn a_fresh_report_is_all_zeros() {
    let report = Report::new(Rule::Standard, 4, Instant::now());
    let wire = report.speculation();
    assert_eq!((wire.rounds, wire.proposed, wire.accepted), (0, 0, 0));
    assert_eq!(report.timings(), v1::RequestTimings::default());
}

#[test]
fn times_are_cut_at_admission_and_at_the_first_and_last_token() {
    let start = Instant::now();
    let mut report = Report::new(Rule::Standard, 4, start);
    report.admitted(start + 2 * MS);
    report.forward(5 * MS);
    report.first_token(start + 7 * MS);
    report.admitted(start + 9 * MS);
    report.forward(10 * MS);
    report.round(Ok(&proposal(1)), &outcome(&[Origin::Corrected], 1), start + 27 * MS);
    let wire = report.timings();
    assert_eq!((wire.queue_micros, wire.prefill_micros, wire.decode_micros), (2000, 5000, 20_000));
    assert_eq!((wire.verify_micros, wire.draft_micros, wire.network_micros), (10_000, 2000, 1000));
    assert_eq!(wire.decode_steps, 1);
}

use super::*;

const MS: Duration = Duration::from_millis(1);

fn cost_of_16_ms() -> PassCost {
    let mut cost = PassCost::default();
    cost.observe(1, 16 * MS);
    cost
}

fn judge(patience: &mut Patience, now: Instant, members: &[Member]) -> Verdict {
    patience.judge(now, 64, members.iter().copied(), &cost_of_16_ms())
}

const SPECULATING: Member = Member::Speculating { n_rows: 4 };
const PLAIN: Member = Member::Plain { n_rows: 1 };

#[test]
fn nobody_means_idle() {
    assert_eq!(judge(&mut Patience::default(), Instant::now(), &[]), Verdict::Idle);
}

#[test]
fn alone_it_waits_for_its_own_answer_and_then_goes_at_once() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let until = now + 30 * MS;
    assert_eq!(judge(&mut patience, now, &[Member::Waiting { until }]), Verdict::WaitUntil(until));
    assert_eq!(judge(&mut patience, now + MS, &[SPECULATING]), Verdict::Go);
}

#[test]
fn those_with_proposals_gather_for_at_most_a_pass() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let waiting = Member::Waiting { until: now + 30 * MS };
    // The time before the first proposal does not count.
    assert_eq!(judge(&mut patience, now, &[waiting, waiting]), Verdict::WaitUntil(now + 30 * MS));
    let first = now + 2 * MS;
    assert_eq!(judge(&mut patience, first, &[SPECULATING, waiting]), Verdict::WaitUntil(first + 16 * MS));
    assert_eq!(judge(&mut patience, first + 15 * MS, &[SPECULATING, waiting]), Verdict::WaitUntil(first + 16 * MS));
    assert_eq!(judge(&mut patience, first + 16 * MS, &[SPECULATING, waiting]), Verdict::Go);
}

#[test]
fn the_plain_pay_an_eighth_of_a_pass() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let members = [PLAIN, SPECULATING, Member::Waiting { until: now + 30 * MS }];
    assert_eq!(judge(&mut patience, now, &members), Verdict::WaitUntil(now + 2 * MS));
    assert_eq!(judge(&mut patience, now + 2 * MS, &members), Verdict::Go);
}

#[test]
fn an_own_deadline_comes_before_the_patience_of_others() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let members = [SPECULATING, Member::Waiting { until: now + 3 * MS }];
    assert_eq!(judge(&mut patience, now, &members), Verdict::WaitUntil(now + 3 * MS));
}

#[test]
fn patience_starts_anew_after_a_pass() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let members = [PLAIN, Member::Waiting { until: now + 30 * MS }];
    judge(&mut patience, now, &members);
    assert_eq!(judge(&mut patience, now + 2 * MS, &members), Verdict::Go);
    assert_eq!(judge(&mut patience, now + 20 * MS, &members), Verdict::WaitUntil(now + 22 * MS));
}

#[test]
fn patience_starts_anew_when_nobody_is_ready_any_more() {
    let (now, mut patience) = (Instant::now(), Patience::default());
    let waiting = Member::Waiting { until: now + 90 * MS };
    judge(&mut patience, now, &[SPECULATING, waiting]);
    // The client of the one that was ready has left.
    assert_eq!(judge(&mut patience, now + 5 * MS, &[waiting]), Verdict::WaitUntil(now + 90 * MS));
    assert_eq!(judge(&mut patience, now + 40 * MS, &[SPECULATING, waiting]), Verdict::WaitUntil(now + 56 * MS));
}

#[test]
fn before_the_first_pass_nobody_waits_for_others() {
    let now = Instant::now();
    let members = [PLAIN, Member::Waiting { until: now + 30 * MS }];
    let verdict = Patience::default().judge(now, 64, members.into_iter(), &PassCost::default());
    assert_eq!(verdict, Verdict::Go);
}

#[test]
fn a_pass_of_many_rows_is_expected_to_take_longer() {
    let mut cost = cost_of_16_ms();
    cost.observe(100, 80 * MS);
    assert_eq!(cost.of(4), 16 * MS);
    assert_eq!(cost.of(200), 160 * MS);
}

#[test]
fn a_draft_that_stays_late_is_asked_less_and_less() {
    let mut reluctance = Reluctance::default();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        reluctance.was_late();
        let mut pause = 0;
        while !reluctance.may_ask() {
            pause += 1;
        }
        pauses.push(pause);
    }
    assert_eq!(pauses, [1, 3, 7, 15, 31, 63, 63, 63]);
    reluctance.was_in_time();
    assert!(reluctance.may_ask());
}

//! Would the tests notice? Faults that people have made are put into the services, and the test that the right rule passes
//! must fail on each. A test that has never rejected anything proves nothing.
//!
//! A fault is put where it would be in life. In the verifier: another function in place of the rule, through a seam that
//! exists only with the cargo feature `controls` of the verifier-service. In the draft: a service that draws from one
//! distribution and reports another. Everything else is production: both services, the wire, the requests; and the test
//! is the one of [`sampling`](crate::sampling), the same law and the same chi-square threshold.
//!
//! The tables say how many draws it takes until the statistic first crosses its threshold: the power of the test against
//! that fault. The right rule is looked at after every draw too, and never crosses it.
//!
//! - `case`: what is asked of a pair, and how its draws are judged.
//! - `verdicts`: faults in the decision about one token.
//! - `rounds`: faults in the target's rows and in what a round makes of the verdicts.
//! - `counts`: faults in what penalties count.
//! - `texts`: faults that keep the law and break a promise about a text.

use specfleet_client::v1::GenerateRequest;
use specfleet_model::scripted::ScriptedModel;
use specfleet_tests::{
    lying_draft::Lie,
    outcome::Outcome,
    real_models::long_form,
    report,
    scripted_pair::{N_VOCAB, request, settings},
};
use specfleet_verifier_service::controls::Control;

pub(crate) mod case;
mod cases;
mod counts;
mod rounds;
mod texts;
mod verdicts;

use self::{
    case::{Case, Judgement, Verifying},
    cases::*,
};

/// A fault and a case in which it shows.
struct Fault {
    name: &'static str,
    case: Case,
    verifying: Verifying,
    /// `None`: the draft-service.
    draft: Option<Lie>,
}

fn verdict(name: &'static str, case: Case, verdict: verdicts::Decide) -> Fault {
    Fault { name, case, verifying: Verifying::Verdicts(verdict), draft: None }
}

fn round(name: &'static str, case: Case, round: rounds::Decide) -> Fault {
    Fault { name, case, verifying: Verifying::Rounds(round), draft: None }
}

fn carry(name: &'static str, case: Case, carry: counts::Carry) -> Fault {
    Fault { name, case: case.alone(), verifying: Verifying::Carrying(carry), draft: None }
}

fn lie(name: &'static str, case: Case, lie: Lie) -> Fault {
    Fault { name, case, verifying: Verifying::Right, draft: Some(lie) }
}

impl Judgement {
    fn cells(&self, name: &str, case: &Case) -> [String; 7] {
        [
            name.to_owned(),
            case.name.to_owned(),
            self.n_draws.to_string(),
            self.test.degrees.to_string(),
            format!("{:.1}", self.test.statistic),
            format!("{:.1}", self.test.threshold()),
            self.detected_after.map_or("never".to_owned(), |n_draws| n_draws.to_string()),
        ]
    }
}

const HEADER: [&str; 7] = ["", "case", "draws", "df", "chi-square", "threshold", "caught after"];

/// Draws of the right rule, as far as the plan has so many: several times what a fault is given.
const N_RIGHT: usize = 100_000;

/// Judges faults, prints how many draws each took, and fails if one was not caught.
async fn assert_caught(title: &str, faults: Vec<Fault>) {
    let (mut lines, mut missed) = (vec![], vec![]);
    let n_draws = if long_form() { 20_000 } else { 2_000 };
    for Fault { name, case, verifying, draft } in faults {
        let judgement = case.judge(&case.draw(verifying, draft, n_draws).await);
        lines.push(judgement.cells(name, &case));
        if judgement.detected_after.is_none() {
            missed.push(name);
        }
    }
    report::print(title, HEADER, lines);
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_rule_is_never_caught() {
    let (mut lines, mut caught) = (vec![], vec![]);
    for case in all() {
        let judgement = case.judge(&case.draw(Verifying::Right, None, N_RIGHT).await);
        lines.push(judgement.cells("both services", &case));
        if judgement.detected_after.is_some() {
            caught.push(case.name);
        }
    }
    report::print("The right rule, looked at after every draw", HEADER, lines);
    assert!(caught.is_empty(), "caught without a fault: {caught:?}");
}

/// Neither the seam nor the draft that could lie is a fault by itself: with the same seeds the same tokens come out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_places_for_faults_change_nothing_by_themselves() {
    for case in all() {
        let draws = case.draw(Verifying::Right, None, 500).await;
        for (verifying, draft) in [
            (Verifying::Rounds(rounds::right), None),
            (Verifying::Verdicts(verdicts::right), None),
            (Verifying::Right, Some(Lie::None)),
        ] {
            assert_eq!(case.draw(verifying, draft, 500).await, draws, "{}", case.name);
        }
    }
}

/// Nor are counts that are made up from what earlier rounds have left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carrying_tokens_from_round_to_round_changes_nothing_by_itself() {
    for case in [penalised().alone(), present().alone(), repeated().alone()] {
        let draws = case.draw(Verifying::Right, None, 500).await;
        assert_eq!(case.draw(Verifying::Carrying(counts::right), None, 500).await, draws, "{}", case.name);
    }
}

/// What comes after an end is cut where tokens are committed as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_runs_past_an_end_token_is_harmless() {
    let draws = ending().draw(Verifying::Right, None, 500).await;
    assert_eq!(ending().draw(Verifying::Rounds(rounds::no_cut_at_the_end), None, 500).await, draws);
}

/// And what comes after the last token that was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_that_runs_past_the_length_is_harmless() {
    let draws = min_tokens().draw(Verifying::Right, None, 500).await;
    assert_eq!(min_tokens().draw(Verifying::Rounds(rounds::no_cut_at_the_length), None, 500).await, draws);
}

/// A rule that asks for a match has the right law and accepts the sum of p q instead of the sum of min(p, q). Five standard
/// deviations: each is outside by chance once in two million times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_accepts_too_seldom_is_caught() {
    const N_TESTED: u32 = 4_000;
    // Of i / 136 and (17 - i) / 136, i from 1 to 16.
    let (of_the_rule, of_a_match) = (72.0 / 136.0, 816.0 / (136.0 * 136.0));
    let is_near = |share: f64, expected: f64| {
        (share - expected).abs() < 5.0 * (expected * (1.0 - expected) / f64::from(N_TESTED)).sqrt()
    };
    let right = reversed().share_accepted(Verifying::Right, N_TESTED).await;
    assert!(is_near(right, of_the_rule), "{right} accepted, expected {of_the_rule}");

    let matching = Verifying::Verdicts(verdicts::match_and_keep);
    let share = reversed().share_accepted(matching, N_TESTED).await;
    assert!(!is_near(share, of_the_rule) && is_near(share, of_a_match), "{share} accepted");
    let judgement = reversed().judge(&reversed().draw(matching, None, 5_000).await);
    assert_eq!(judgement.detected_after, None, "{}", judgement.test);
}

/// A row of NaN fails its request, with no token of it. A fault that makes one up does not get past the same look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_from_a_row_without_numbers_is_caught() {
    for (decide, fails) in [(rounds::right as rounds::Decide, true), (rounds::the_last_id_where_there_is_none, false)] {
        let target =
            ScriptedModel::from_fn(N_VOCAB, |prefix| vec![if prefix.len() > 3 { f32::NAN } else { 0.0 }; N_VOCAB]);
        let control = Control::Decides(Box::new(move |round| decide(&round)));
        let verifier = case::serve(target, vec![], settings().verifier, Some(control));
        let request = GenerateRequest { ignore_eos: true, ..request(&[1], 8) };
        assert_eq!(Outcome::of(&verifier.client, request).await.is_err(), fails);
    }
}

/// Where rounding rejects although p = q, nothing is lost as long as the residual of nothing is p.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_without_a_residual_is_harmless() {
    let verifying = Verifying::Verdicts(verdicts::test_in_half_precision);
    let judgement = identical().judge(&identical().draw(verifying, None, 5_000).await);
    assert_eq!(judgement.detected_after, None, "{}", judgement.test);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_verdicts_about_a_token_are_caught() {
    use verdicts::*;
    let faults = vec![
        verdict("every draft token is accepted", reversed(), accept_everything),
        verdict("accepted iff it is the target's likeliest", reversed(), accept_the_likeliest),
        verdict("accepted iff p(x) >= q(x)", reversed(), accept_what_the_target_likes_more),
        verdict("the number of the accept test is always 0", reversed(), test_with_zero),
        verdict("accepted iff a draw from p gives x, else p again", leaning(), match_then_draw_afresh),
        verdict("accepted iff a draw from p gives x, else the residual", reversed(), match_then_draw_the_residual),
        verdict("after a rejection p, not the residual", reversed(), draw_afresh),
        verdict("the residual through softmax", reversed(), draw_softmax_of_residual),
        verdict("one number for the accept test and the residual", reversed(), share_test_and_residual),
        verdict("one number for all accept tests of a round", leaning(), share_tests_of_a_round),
        verdict("the residual of p = q divided by its sum, 0", identical(), divide_by_an_empty_residual),
        verdict("q rounded after the draw, a q of 0 passes", rare(), divide_by_a_coarse_q),
        verdict("a q that is not a number passes", reversed(), divide_by_what_is_not_a_number),
        verdict("a token that p finds unlikely is passed over, then p", reversed(), pass_over_unlikely),
        verdict("a token that p excludes is passed over, then p", excluded(), pass_over_excluded),
        Fault {
            draft: Some(Lie::KnownNumbers),
            ..verdict("one number for the draft's draw and the accept test", reversed(), share_draw_and_test)
        },
        Fault {
            draft: Some(Lie::KnownNumbers),
            ..verdict("one number for the draft's draw and the residual", reversed(), share_draw_and_residual)
        },
        verdict("shared noise: where the two differ, p afresh", invariant(), match_noise_then_draw_afresh),
        verdict("shared noise: the same for all positions of a round", invariant(), share_noise_in_a_round),
    ];
    assert_caught("Faults in the decision about a token", faults).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_rows_and_rounds_are_caught() {
    use rounds::*;
    let faults = vec![
        round("bonus rows without the temperature", sharpened(), bonus_rows_without_transforms),
        round("corrections without the temperature", sure(), corrections_without_transforms),
        round("target rows at temperature 1", sharpened(), rows_at_temperature_one),
        round("min-p skipped at draft positions", min_p(), draft_rows_without_min_p),
        round("logit bias ignored once there is a proposal", biased(), rounds_without_transforms),
        round("frequency penalty ignored once there is a proposal", penalised(), rounds_without_transforms),
        round("presence penalty ignored once there is a proposal", present(), rounds_without_transforms),
        round("repetition penalty ignored once there is a proposal", repeated(), rounds_without_transforms),
        round("end tokens suppressed at draft positions", ending(), draft_rows_without_end),
        round("the first draft token unchecked, rows shifted by one", dependent(), first_token_unchecked),
        round("positions after a rejection are tested too", dependent(), test_on_after_rejection),
        round("rejected tokens are removed a round late", dependent(), keep_rejected_tokens),
    ];
    assert_caught("Faults in the target's rows and in the round", faults).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_counts_are_caught() {
    use counts::*;
    let faults = vec![
        carry("penalties that miss the prompt", repeated(), blind_to_the_prompt),
        round("penalties that miss the committed tokens", repeated(), blind_to_committed_tokens),
        round("penalties that miss the draft tokens before", penalised(), blind_to_draft_tokens),
        round("penalties that count draft tokens twice", penalised(), draft_tokens_twice),
        round("penalties that count rejected draft tokens", penalised(), the_whole_proposal),
        carry("penalties that count what earlier rounds rejected", penalised(), what_earlier_rounds_rejected),
        round("min_tokens that counts committed tokens only", min_tokens(), blind_to_draft_tokens),
    ];
    assert_caught("Faults in what penalties and min_tokens count", faults).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_of_the_draft_are_caught() {
    let faults = vec![
        lie("drawn in bf16, reported in f32", near_tie(), Lie::BeliefInBf16),
        lie("truncated after the draw", reversed(), Lie::TruncatesAfterDraw),
        lie("unlikely tokens dropped after the draw", reversed(), Lie::DropsUnlikely),
        lie("drawn at 0.7 of the reported temperature", agreeing(), Lie::TemperatureOnOneSide),
        lie("the likeliest token, reported as a draw", reversed(), Lie::GreedyReportsSoftmax),
        lie("drawn after top-k, reported before", top_k(), Lie::ReportsRawAfterTopK),
        lie("end tokens never drawn, but reported", ending(), Lie::SuppressesEnd),
        lie("drawn without the penalties that are reported", penalised(), Lie::PenaltiesOnOneSide),
        lie("one number for all draws of a proposal", reversed(), Lie::OneNumberForAll),
    ];
    assert_eq!(faults.len(), Lie::ALL.len(), "each lie is tried");
    assert_caught("Drafts that draw from one distribution and report another", faults).await;
}

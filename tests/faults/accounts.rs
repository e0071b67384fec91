//! Counters that a dashboard divides: they must never say more than happened, and never divide nothing by nothing.

use specfleet_client::v1::{AcceptanceRule, SpeculationOptions, SpeculationReport};
use specfleet_tests::scripted_pair::{ScriptedPair, request, settings};

const TARGET: &str = "* -> 0:1 1:2 2:3 3:4";
const REVERSED: &str = "* -> 0:4 1:3 2:2 3:1";
const DRAFT_LENGTH: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn before_the_first_draft_no_figure_is_not_a_number() {
    let pair = ScriptedPair::start(TARGET, REVERSED, settings()).await;
    for metrics in [&pair.verifier.metrics, &pair.draft.metrics] {
        let text = metrics.text().unwrap();
        assert!(!text.contains("NaN"), "{text}");
    }
    for line in pair.verifier.metrics.text().unwrap().lines().filter(|line| line.contains("draft_tokens")) {
        assert!(line.starts_with('#') || line.ends_with(" 0"), "{line}");
    }
}

/// Each draft token passes with probability 0.6, whatever came before. So the share of rounds whose first i tokens pass is
/// 0.6^i; a round of four commits 1 + 0.6 + 0.36 + 0.216 + 0.1296 = 2.3056 tokens.
#[tokio::test(flavor = "multi_thread")]
async fn counters_show_what_the_rule_predicts() {
    let pair = ScriptedPair::start(TARGET, REVERSED, settings()).await;
    let mut total = SpeculationReport::default();
    let (mut accepted_at, mut n_tokens) = ([0_u32; DRAFT_LENGTH as usize], 0);
    for seed in 0..20 {
        let mut wire = request(&[5], 1000);
        wire.seed = Some(seed);
        wire.speculation = Some(SpeculationOptions {
            max_draft_length: Some(DRAFT_LENGTH),
            rule: AcceptanceRule::Standard.into(),
            ..SpeculationOptions::default()
        });
        let outcome = pair.generate(wire).await;
        let report = outcome.speculation();
        total.rounds += report.rounds;
        total.proposed += report.proposed;
        total.accepted += report.accepted;
        total.corrected += report.corrected;
        total.bonus += report.bonus;
        total.plain_steps += report.plain_steps;
        for (sum, accepted) in accepted_at.iter_mut().zip(&report.accepted_per_position) {
            *sum += accepted;
        }
        n_tokens += outcome.token_ids().len() as u32;
    }
    // About 8 700 rounds: a share of 0.6 is off by 0.016 in one run of a thousand. The seeds are fixed.
    let share = |count: u32, of: u32| f64::from(count) / f64::from(of);
    for (accepted, expected) in accepted_at.into_iter().zip([0.6, 0.36, 0.216, 0.1296]) {
        let survival = share(accepted, total.rounds);
        assert!((survival - expected).abs() < 0.02, "{survival} for {expected}");
    }
    let rate = share(total.accepted, total.proposed);
    assert!((rate - 0.3264).abs() < 0.02, "{rate}");
    let per_round = share(total.accepted + total.corrected + total.bonus + total.plain_steps, total.rounds);
    assert!((per_round - 2.3056).abs() < 0.06, "{per_round}");

    let metric = |name: &str| pair.verifier.metric(&format!("specfleet_verifier_{name}_total"), "") as u32;
    let [proposed, tested, accepted] =
        ["draft_tokens_proposed", "draft_tokens_tested", "draft_tokens_accepted"].map(metric);
    assert!(accepted < tested && tested < proposed, "{accepted}, {tested}, {proposed}");
    assert_eq!((proposed, accepted), (total.proposed, total.accepted), "metrics and reports are one account");
    assert_eq!((metric("corrected_tokens"), metric("bonus_tokens")), (total.corrected, total.bonus));
    assert_eq!(metric("positions_tested"), tested);
    assert_eq!(metric("positions_accepted"), accepted);
    assert_eq!(metric("committed_tokens"), n_tokens);
}

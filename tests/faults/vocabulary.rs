//! Vocabularies that differ: in padding, in what the draft knows, in the spelling of a token.

use specfleet_client::v1::{AcceptanceRule, DraftState, SpeculationOptions, TokenOrigin};
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_tests::{
    chi_square::ChiSquare,
    in_process::{Draft, Pair, Verifier},
    outcome::Outcome,
    scripted_pair::{request, settings},
};

/// Six ids, of which the last has no probability.
const TARGET: &str = "* -> 0:1 1:2 2:3 3:2 4:2";
const LAW: [f64; 6] = [0.1, 0.2, 0.3, 0.2, 0.2, 0.0];

/// A model of `table` whose ids spell the letters of `spelling`, with as many rows as `n_rows` beyond them as padding.
fn model(table: &str, spelling: &str, n_rows: usize) -> Loaded {
    Loaded {
        model: Box::new(ScriptedModel::from_table(table, n_rows).unwrap()),
        tokenizer: Tokenizer::from_bytes(spelling.bytes().map(|letter| vec![letter]).collect(), &[], &[]),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: format!("{n_rows} rows over {spelling:?}"),
    }
}

/// 20 000 tokens of a pair, by seeded requests under the standard rule.
async fn sample(pair: &Pair) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for seed in 0..20 {
        let mut wire = request(&[0], 1000);
        wire.seed = Some(seed);
        wire.speculation =
            Some(SpeculationOptions { rule: AcceptanceRule::Standard.into(), ..SpeculationOptions::default() });
        outcomes.push(Outcome::of(&pair.client, wire).await.unwrap());
    }
    outcomes
}

fn assert_law(outcomes: &[Outcome]) {
    let mut counts = [0; 6];
    for token in outcomes.iter().flat_map(Outcome::token_ids) {
        counts[token as usize] += 1;
    }
    let test = ChiSquare::of(&counts, &LAW);
    assert!(test.passes(), "{counts:?}: {test}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_the_draft_does_not_know_come_from_the_target_alone() {
    let draft = model("* -> 0:1 1:1 2:1 3:1", "abcd", 4);
    let pair = Pair::start(model(TARGET, "abcdef", 6), draft, settings()).await;
    let outcomes = sample(&pair).await;
    assert_law(&outcomes);
    let tokens = || outcomes.iter().flat_map(|outcome| &outcome.rounds).flat_map(|round| &round.tokens);
    assert!(tokens().any(|token| token.origin() == TokenOrigin::Accepted));
    let unknown: Vec<TokenOrigin> = tokens().filter(|token| token.token_id == 4).map(|token| token.origin()).collect();
    assert!(unknown.contains(&TokenOrigin::Corrected) && unknown.contains(&TokenOrigin::Bonus), "{unknown:?}");
    assert!(!unknown.contains(&TokenOrigin::Accepted), "the draft cannot propose what it does not know");
}

/// The same tokenizer, and tables padded to different sizes: the draft puts most of its probability on padding.
#[tokio::test(flavor = "multi_thread")]
async fn different_padding_is_no_difference() {
    let draft = model("* -> 0:1 1:1 2:1 3:1 4:1 7:20", "abcdef", 8);
    let pair = Pair::start(model(TARGET, "abcdef", 6), draft, settings()).await;
    let outcomes = sample(&pair).await;
    assert_law(&outcomes);
    let (proposed, accepted) = outcomes
        .iter()
        .map(Outcome::speculation)
        .fold((0, 0), |(proposed, accepted), report| (proposed + report.proposed, accepted + report.accepted));
    // q is a fifth on each id that both know: 0.1 + 4 * 0.2 of it passes.
    let rate = f64::from(accepted) / f64::from(proposed);
    assert!(rate > 0.7, "{rate}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_spelled_otherwise_is_refused_with_both_sides() {
    let draft = Draft::start(model("* -> 0:1 1:1 2:1 3:1", "abxd", 4), settings().draft);
    let drafts = vec![("draft".to_owned(), draft.channel())];
    let verifier = Verifier::start(model(TARGET, "abcdef", 6), drafts, settings().verifier);
    let refused = async || verifier.client.identity().await.unwrap().drafts[0].state() == DraftState::Incompatible;
    verifier.until("the draft is refused", refused).await;
    let detail = verifier.client.identity().await.unwrap().drafts[0].detail.clone();
    for part in ["token 2", "the target spells \"c\"", "the draft spells"] {
        assert!(detail.contains(part), "{part:?} in {detail:?}");
    }
    let outcome = Outcome::of(&verifier.client, request(&[0], 50)).await.unwrap();
    assert_eq!(outcome.speculation().plain_reasons["no_draft"], 49);
    assert_eq!(verifier.metric("specfleet_verifier_drafts", "incompatible"), 1.0);
}

//! When a model's proposal ends early, and when the model is not asked at all. Both are decided before a token is drawn.

use std::collections::BTreeSet;

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{AcceptanceRule, draft_token::Distribution};
use specfleet_speculation::TokenId;

use super::harness::*;
use crate::service::Options;

/// Sure of its first token after a prompt of one, in two minds about the second, and so on: 1, 1/2, 1/2, ...
fn doubtful() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |prefix| {
        let n_likely = if prefix.len() == 1 { 1 } else { 2 };
        (0..N_VOCAB).map(|token| if token < n_likely { 0.0 } else { -40.0 }).collect()
    })
}

fn ends_below(least_chance: f64) -> Options {
    Options { least_chance, ..options() }
}

fn recalls() -> Options {
    Options { recalled_ngram: Some(3.try_into().unwrap()), ..options() }
}

#[tokio::test]
async fn a_proposal_ends_when_the_rest_would_hardly_be_reached() {
    for (least_chance, n_expected) in [(0.0, 8), (0.2, 4), (0.3, 3), (0.6, 2), (1.0, 2)] {
        let draft = Draft::of_model(doubtful(), ends_below(least_chance));
        let mut session = draft.open(&[3], 1).await;
        let proposal = session.advance(&[], 8).await.unwrap();
        assert_eq!(proposal.tokens.len(), n_expected, "least chance {least_chance}");
    }
}

/// Stopping by what was drawn would condition q; the length must be the same whatever the draws and the rule.
#[tokio::test]
async fn the_length_of_a_proposal_says_nothing_about_its_tokens() {
    let draft = Draft::of_model(doubtful(), ends_below(0.3));
    let mut drawn = BTreeSet::new();
    for (seed, rule) in
        (0..40).map(|seed| (seed, AcceptanceRule::Standard)).chain([(1, AcceptanceRule::DraftInvariant)])
    {
        let mut open = draft.open_message(&[3], seed);
        open.settings.as_mut().unwrap().rule = rule.into();
        let proposal = draft.open_with(open).await.unwrap().advance(&[], 8).await.unwrap();
        assert_eq!(proposal.tokens.len(), 3, "seed {seed}");
        drawn.insert(ids(&proposal));
    }
    assert_eq!(drawn.len(), 4, "two positions with two tokens each were drawn: {drawn:?}");
}

/// Greedy requests have the same confidence as others: it is the model's own, not that of the shaped row.
#[tokio::test]
async fn a_greedy_proposal_ends_early_too() {
    let draft = Draft::of_model(doubtful(), ends_below(0.3));
    let mut session = draft.open_with(greedy(draft.open_message(&[3], 1))).await.unwrap();
    assert_eq!(ids(&session.advance(&[], 8).await.unwrap()), [0, 0, 0]);
}

#[tokio::test]
async fn what_the_text_repeats_is_recalled_without_asking_the_model() {
    let (model, record) = Recorded::new(mixed_model());
    let draft = Draft::of_model(model, recalls());
    let mut session = draft.open_with(greedy(draft.open_message(&[7, 8, 9, 4, 5, 7, 8, 9], 1))).await.unwrap();
    let proposal = session.advance(&[], 4).await.unwrap();
    assert_eq!(ids(&proposal), [4, 5, 7, 8]);
    assert!(proposal.tokens.iter().all(|token| matches!(token.distribution, Some(Distribution::Point(_)))));
    assert!(record.lock().unwrap().is_empty(), "nothing was computed");

    // The text goes on otherwise: the model drafts, and is told at once what it has missed.
    let committed = [4, 5, 1, 2];
    let mut prefix = vec![7, 8, 9, 4, 5, 7, 8, 9];
    prefix.extend(committed);
    assert_eq!(ids(&session.advance(&committed, 3).await.unwrap()), greedy_after(&prefix, 3));
    assert_eq!(record.lock().unwrap()[0], [(0, prefix.len())]);
}

/// Whoever takes turns between the two must draft like someone who never did.
#[tokio::test]
async fn recalled_rounds_leave_the_model_s_memory_right() {
    let (recalling, plain) = (Draft::of_model(mixed_model(), recalls()), Draft::of_model(mixed_model(), options()));
    let mut prefix: Vec<TokenId> = vec![1, 2, 3];
    let mut of_recalling = recalling.open_with(greedy(recalling.open_message(&prefix, 1))).await.unwrap();
    let mut of_plain = plain.open_with(greedy(plain.open_message(&prefix, 1))).await.unwrap();
    let (mut committed, mut n_recalled, mut n_drafted) = (Vec::new(), 0, 0);
    for round in 0..60_usize {
        let recalled = ids(&of_recalling.advance(&committed, 4).await.unwrap());
        let drafted = ids(&of_plain.advance(&committed, 4).await.unwrap());
        assert_eq!(drafted, greedy_after(&prefix, 4));
        let repeats = prefix[..prefix.len() - 1].windows(3).any(|window| prefix.ends_with(window));
        if repeats {
            n_recalled += 1;
        } else {
            n_drafted += 1;
            assert_eq!(recalled, drafted, "round {round}");
        }
        // Some of what was proposed passes, and a token of a small alphabet follows, so that texts repeat.
        committed = recalled[..round % 5].to_vec();
        committed.push((round * round % 3) as TokenId);
        prefix.extend(&committed);
    }
    assert!(n_recalled >= 10 && n_drafted >= 10, "{n_recalled} recalled, {n_drafted} drafted");
}

/// Verifiers pin versions, and each of these draws from other distributions.
#[tokio::test]
async fn another_policy_is_another_version() {
    let policies = [options(), ends_below(0.3), ends_below(0.4), recalls()];
    let versions: BTreeSet<_> =
        policies.map(|options| Draft::of_model(mixed_model(), options).version_id).into_iter().collect();
    assert_eq!(versions.len(), 4);
}

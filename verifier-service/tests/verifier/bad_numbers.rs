//! Numbers in a proposal that cannot be what a token was drawn from. None of them may reach the acceptance rule: NaN fails
//! every comparison, a probability of 0 makes a ratio of infinity, and an id out of range looks like one in range once
//! somebody has clamped it.

use std::time::Duration;

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{
    DenseDistribution, DraftToken, GenerateRequest, PointDistribution, SamplingParams, SparseDistribution,
    draft_token::Distribution,
};
use specfleet_speculation::TokenId;

use crate::support::{Answer, FakeDraft, N_VOCAB, Outcome, Verifier, drafted, greedy_target, options, plain, winding};

/// Tokens that a law is judged by.
const N_DRAWS: usize = 4000;

fn dense(token_id: TokenId, values: [f32; N_VOCAB]) -> DraftToken {
    let probabilities = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    DraftToken { token_id, distribution: Some(Distribution::Dense(DenseDistribution { probabilities })) }
}

/// A target that draws ids 0 to 3 by this law, whatever came before.
fn target(law: [f32; 4]) -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, move |_| {
        let mut logits = vec![f32::NEG_INFINITY; N_VOCAB];
        for (logit, probability) in logits.iter_mut().zip(law) {
            *logit = probability.ln();
        }
        logits
    })
    // No faster than its client reads on a busy machine.
    .with_delay(Duration::from_micros(50))
}

/// What a target makes of a draft that always sends `tokens`.
async fn run(target: ScriptedModel, tokens: Vec<DraftToken>, request: GenerateRequest) -> Outcome {
    let draft = FakeDraft::new(move |_| Answer::Drawn(tokens.clone()));
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let outcome = verifier.generate(request).await;
    let report = outcome.speculation();
    assert!(report.dropped_proposals["malformed"] >= 1, "{report:?}");
    assert_eq!((report.accepted, report.corrected), (0, 0), "{report:?}");
    outcome
}

fn sampled() -> GenerateRequest {
    let sampling = SamplingParams { temperature: Some(1.0), ..Default::default() };
    GenerateRequest { sampling: Some(sampling), seed: Some(5), ..drafted(&[1], N_DRAWS as u32, 3) }
}

/// Within five standard deviations: each count is outside by chance once in two million times, and the seed is fixed.
fn assert_law(outcome: &Outcome, law: [f32; 4]) {
    let mut counts = [0.0; N_VOCAB];
    for token in outcome.tokens() {
        counts[token as usize] += 1.0;
    }
    for (id, count) in counts.iter().enumerate() {
        let probability = law.get(id).copied().map_or(0.0, f64::from);
        let expected = N_DRAWS as f64 * probability;
        let deviation = (expected * (1.0 - probability)).sqrt();
        assert!((count - expected).abs() <= 5.0 * deviation, "id {id}: {count} times, expected {expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_q_that_is_not_finite_or_no_probability_voids_the_draft_and_the_token_comes_from_p() {
    let law = [0.0, 0.97, 0.02, 0.01];
    let uniform = [1.0 / N_VOCAB as f32; N_VOCAB];
    let with = |index: usize, value: f32| {
        let mut values = uniform;
        values[index] = value;
        values
    };
    let bad = [
        [f32::NAN; N_VOCAB],
        with(9, f32::NAN),
        with(0, f32::INFINITY),
        with(3, f32::NEG_INFINITY),
        with(3, -1.0 / N_VOCAB as f32),
        uniform.map(|value| 0.9 * value),
    ];
    for values in bad {
        let outcome = run(target(law), vec![dense(0, values)], sampled()).await;
        assert_law(&outcome, law);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposed_token_with_q_zero_is_a_broken_message_and_no_ratio_of_infinity() {
    let law = [0.25; 4];
    let mut values = [0.0; N_VOCAB];
    (values[0], values[1]) = (0.5, 0.5);
    let outcome = run(target(law), vec![dense(2, values)], sampled()).await;
    assert_law(&outcome, law);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_the_target_does_not_have_is_refused_and_never_clamped() {
    for id in [N_VOCAB as u32, N_VOCAB as u32 + 1, i32::MAX as u32, u32::MAX] {
        let sparse = SparseDistribution { id_deltas: vec![0, id], weights: vec![1, 1], total: 2 };
        for (token_id, distribution) in [
            (id, Distribution::Point(PointDistribution {})),
            (id, Distribution::Sparse(sparse.clone())),
            // The token is one that there is; its distribution is not.
            (0, Distribution::Sparse(sparse)),
        ] {
            let token = DraftToken { token_id, distribution: Some(distribution) };
            let outcome = run(greedy_target(winding), vec![token], drafted(&[1], 30, 3)).await;
            outcome.assert_tokens(&plain(winding, &[1], 30));
        }
    }
}

//! Log-probabilities: the target's own, whatever the client's transforms and whoever proposed the token.

use std::time::Duration;

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{self, GenerateRequest, TokenOrigin};
use specfleet_speculation::TokenId;

use crate::support::{Answer, FakeDraft, N_VOCAB, Outcome, Verifier, drafted, options, request, winding};

const P: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

/// Always the same law over the first four ids.
fn flat() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |_| {
        (0..N_VOCAB).map(|id| P.get(id).map_or(f32::NEG_INFINITY, |p| p.ln())).collect()
    })
}

/// A law that depends on the whole prefix.
fn wandering(prefix: &[TokenId]) -> Vec<f32> {
    (0..N_VOCAB as TokenId).map(|id| winding(&[prefix, &[id]].concat()) as f32 / 4.0).collect()
}

fn logprob(logits: &[f32], token: TokenId) -> f64 {
    let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    f64::from(logits[token as usize]) - total.ln()
}

fn scored(n_top: u32, request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { top_logprobs: Some(n_top), ..request }
}

fn tokens(outcome: &Outcome) -> impl Iterator<Item = &v1::CommittedToken> {
    outcome.rounds.iter().flat_map(|round| &round.tokens)
}

fn close(a: f32, b: f64) -> bool {
    (f64::from(a) - b).abs() < 1e-5
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_token_has_the_target_s_probability_before_transforms() {
    // Right, wrong, and with room for a bonus.
    let draft = FakeDraft::new(|advance| Answer::Tokens(vec![3; advance.draft_length.min(1 + advance.number % 3)]));
    let verifier = Verifier::with_draft(flat(), &draft, options()).await;
    let sampling = v1::SamplingParams {
        temperature: Some(0.5),
        top_k: Some(3),
        presence_penalty: Some(1.0),
        logit_bias: vec![v1::LogitBias { token_id: 1, bias: 2.0 }],
        ..Default::default()
    };
    let mut origins = Vec::new();
    for draft_length in [0, 1, 4] {
        let wire = GenerateRequest { sampling: Some(sampling.clone()), ..drafted(&[0, 1], 300, draft_length) };
        let outcome = verifier.generate(scored(4, wire)).await;
        outcome.assert_consistent();
        for token in tokens(&outcome) {
            let score = token.score.as_ref().unwrap();
            assert!(close(score.logprob, f64::from(P[token.token_id as usize]).ln()), "{token:?}");
            let ids: Vec<TokenId> = score.top.iter().map(|top| top.token_id).collect();
            assert_eq!(ids, [3, 2, 1, 0]);
            assert!(score.top.iter().all(|top| close(top.logprob, f64::from(P[top.token_id as usize]).ln())));
            origins.push(token.origin());
        }
    }
    for origin in [TokenOrigin::Plain, TokenOrigin::Accepted, TokenOrigin::Corrected, TokenOrigin::Bonus] {
        assert!(origins.contains(&origin), "{origin:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_follow_the_prefix_and_are_the_same_with_and_without_speculation() {
    let draft = FakeDraft::following(winding);
    let target = || ScriptedModel::from_fn(N_VOCAB, wandering);
    let verifier = Verifier::with_draft(target(), &draft, options()).await;
    let seeded = |draft_length| {
        let wire =
            GenerateRequest { sampling: None, seed: Some(5), ignore_eos: true, ..drafted(&[0, 1], 80, draft_length) };
        scored(2, wire)
    };
    let plain = verifier.generate(seeded(0)).await;
    let mut prefix = vec![0, 1];
    for token in tokens(&plain) {
        assert!(close(token.score.as_ref().unwrap().logprob, logprob(&wandering(&prefix), token.token_id)));
        prefix.push(token.token_id);
    }
    let scores = |outcome: &Outcome| tokens(outcome).map(|token| token.score.clone()).collect::<Vec<_>>();
    for draft_length in [1, 4] {
        let outcome = verifier.generate(seeded(draft_length)).await;
        assert_eq!((outcome.tokens(), scores(&outcome)), (plain.tokens(), scores(&plain)));
    }
    let unscored = verifier.generate(GenerateRequest { top_logprobs: None, ..seeded(4) }).await;
    assert_eq!(unscored.tokens(), plain.tokens());
    assert!(tokens(&unscored).all(|token| token.score.is_none()), "only for those who ask");
}

fn check_prompt(prompt: &[TokenId], outcome: &Outcome) {
    let scored = &outcome.rounds[0].prompt;
    assert!(outcome.rounds[1..].iter().all(|round| round.prompt.is_empty()));
    assert_eq!(scored.iter().map(|token| token.token_id).collect::<Vec<_>>(), prompt);
    assert!(scored[0].score.is_none());
    for (index, token) in scored.iter().enumerate().skip(1) {
        let score = token.score.as_ref().unwrap();
        assert!(close(score.logprob, logprob(&wandering(&prompt[..index]), token.token_id)), "position {index}");
        assert_eq!(score.top.len(), 1);
    }
}

/// Prompts of one chunk and of many, computed and cached, with drafts and without.
#[tokio::test(flavor = "multi_thread")]
async fn prompts_of_any_length_are_scored_whole() {
    let draft = FakeDraft::following(winding);
    let target = ScriptedModel::from_fn(N_VOCAB, wandering);
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    for n_prompt in [1, 2, 16, 17, 63, 64, 65, 66, 200, 975] {
        let prompt: Vec<TokenId> = (0..n_prompt).map(|index| index * index % 14).collect();
        for (draft_length, n) in [(0, 1), (4, 1), (4, 1), (4, 3)] {
            let wire = GenerateRequest { prompt_logprobs: true, n, ..drafted(&prompt, 3, draft_length) };
            let outcomes = verifier.choices(scored(1, wire)).await.unwrap();
            check_prompt(&prompt, &outcomes[0]);
            assert!(outcomes[1..].iter().all(|outcome| outcome.rounds.iter().all(|round| round.prompt.is_empty())));
        }
    }
    verifier.assert_idle().await;
}

/// Memory for one prompt and a half: the younger loses what it has computed, and starts over.
#[tokio::test(flavor = "multi_thread")]
async fn a_preempted_prompt_is_scored_once() {
    // Slow enough for the two to meet, however late the second comes.
    let target = ScriptedModel::from_fn(N_VOCAB, wandering).with_kv_tokens(320).with_delay(Duration::from_millis(3));
    let verifier = Verifier::start(target, Vec::new(), options());
    let prompts: [Vec<TokenId>; 2] = [3, 5].map(|step| (0..100).map(|index| index * step % 14).collect());
    futures::future::join_all(prompts.iter().map(async |prompt| {
        let wire = GenerateRequest { prompt_logprobs: true, ignore_eos: true, ..request(prompt, 100) };
        let outcome = verifier.generate(scored(1, wire)).await;
        outcome.assert_consistent();
        check_prompt(prompt, &outcome);
    }))
    .await;
    assert!(verifier.metric("specfleet_verifier_preemptions_total", "") >= 1.0);
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_row_of_a_prompt_fails_its_request_alone() {
    let target = ScriptedModel::from_fn(N_VOCAB, |prefix| match prefix {
        [.., 7] => vec![f32::NAN; N_VOCAB],
        _ => wandering(prefix),
    });
    let verifier = Verifier::start(target, Vec::new(), options());
    let scored = |prompt: &[TokenId]| scored(1, GenerateRequest { prompt_logprobs: true, ..request(prompt, 1) });
    let failed = verifier.generate(scored(&[1, 7, 2, 3])).await;
    assert_eq!(failed.status.unwrap().code(), tonic::Code::Internal);
    check_prompt(&[1, 2, 3], &verifier.generate(scored(&[1, 2, 3])).await);
    verifier.assert_idle().await;
}

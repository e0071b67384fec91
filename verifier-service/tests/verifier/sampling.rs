//! Sampled text: seeds belong to requests, and the law of the output is the target's.

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{
    self, AcceptanceRule, DraftToken, GenerateRequest, SparseDistribution, SpeculationOptions,
    draft_token::Distribution,
};
use specfleet_speculation::TokenId;

use crate::support::{Advance, Answer, FakeDraft, N_VOCAB, Verifier, greedy_target, options, plain, request, winding};

/// Ten tokens that are all likely, depending on the last one.
pub(crate) fn lively() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |prefix| {
        let last = prefix[prefix.len() - 1];
        let logit = |id: u32| if id < 10 { winding(&[last, id]) as f32 / 6.0 } else { f32::NEG_INFINITY };
        (0..N_VOCAB as u32).map(logit).collect()
    })
}

pub(crate) fn sampled(prompt: &[TokenId], max_tokens: u32, seed: Option<u64>) -> GenerateRequest {
    let sampling = v1::SamplingParams { temperature: Some(1.0), ..Default::default() };
    GenerateRequest { sampling: Some(sampling), seed, ..request(prompt, max_tokens) }
}

/// A draft that guesses by its own rule.
fn guessing() -> FakeDraft {
    FakeDraft::new(|advance| {
        let guess = |index| winding(&[advance.committed.len() as u32, index]) % 10;
        Answer::Tokens((0..advance.draft_length as u32).map(guess).collect())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_fixes_the_text_alone_and_in_a_crowd_and_after_a_restart() {
    let draft = guessing();
    let verifier = Verifier::with_draft(lively(), &draft, options()).await;
    let text = verifier.generate(sampled(&[1], 64, Some(7))).await.tokens();
    assert_eq!(text.len(), 64);

    let crowd = futures::future::join_all((0..8).map(|index| verifier.generate(sampled(&[index], 64, None))));
    let (again, _) = tokio::join!(verifier.generate(sampled(&[1], 64, Some(7))), crowd);
    again.assert_tokens(&text);

    let restarted = Verifier::with_draft(lively(), &guessing(), options()).await;
    restarted.generate(sampled(&[1], 64, Some(7))).await.assert_tokens(&text);
    assert_ne!(restarted.generate(sampled(&[1], 64, Some(8))).await.tokens(), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seeded_text_does_not_depend_on_the_draft() {
    let drafted = Verifier::with_draft(lively(), &guessing(), options()).await;
    let alone = Verifier::start(lively(), Vec::new(), options());
    let text = alone.generate(sampled(&[1], 64, Some(7))).await.tokens();
    for draft_length in [0, 1, 5] {
        let speculation = SpeculationOptions { max_draft_length: Some(draft_length), ..Default::default() };
        let outcome =
            drafted.generate(GenerateRequest { speculation: Some(speculation), ..sampled(&[1], 64, Some(7)) }).await;
        outcome.assert_tokens(&text);
        assert_eq!(outcome.speculation().rule(), AcceptanceRule::DraftInvariant);
        assert_eq!(outcome.speculation().proposed > 0, draft_length > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_seed_two_runs_differ() {
    let verifier = Verifier::start(lively(), Vec::new(), options());
    let (first, second) =
        (verifier.generate(sampled(&[1], 64, None)).await, verifier.generate(sampled(&[1], 64, None)).await);
    assert_ne!(first.tokens(), second.tokens());
    assert_eq!(first.speculation().rule(), AcceptanceRule::Standard);
}

/// Seeded and unseeded requests in one batch, over a target that leaves no choice.
#[tokio::test(flavor = "multi_thread")]
async fn random_numbers_never_reach_the_wrong_row() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    for shift in 0..50_u32 {
        let requests = (0..4_u32).map(|index| {
            let seed = [Some(1), None, Some(2), None][((index + shift) % 4) as usize];
            let (verifier, prompt) = (&verifier, [index]);
            async move {
                let outcome = verifier.generate(sampled(&prompt, 12, seed)).await;
                outcome.assert_tokens(&plain(winding, &prompt, 12));
            }
        });
        futures::future::join_all(requests).await;
    }
}

pub(crate) const TARGET: [f64; 4] = [0.1, 0.2, 0.3, 0.4];
const DRAFT: [u32; 4] = [4, 3, 2, 1];

/// A target with the law `TARGET` at every position.
pub(crate) fn skewed() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |_| {
        let mut logits = vec![f32::NEG_INFINITY; N_VOCAB];
        for (logit, p) in logits.iter_mut().zip(TARGET) {
            *logit = p.ln() as f32;
        }
        logits
    })
}

/// Draws from `DRAFT` with numbers of its own, which `salt` changes, and says so.
pub(crate) fn reversed(advance: &Advance, salt: u32) -> Answer {
    let draw = |index: usize| {
        let position = (advance.committed.len() + index) as u32;
        let context = [&advance.committed[..], &[position]].concat();
        let hash = context
            .iter()
            .fold(position ^ salt, |hash, token| (hash ^ token).wrapping_mul(0x9E37_79B1).rotate_left(13));
        let mut point = (hash >> 7) % 10;
        let token_id = (0..4).find(|&id| {
            let weight = DRAFT[id as usize];
            let found = point < weight;
            point = point.saturating_sub(weight);
            found
        });
        let distribution = SparseDistribution { id_deltas: vec![0, 1, 1, 1], weights: DRAFT.to_vec(), total: 10 };
        DraftToken { token_id: token_id.unwrap_or(3), distribution: Some(Distribution::Sparse(distribution)) }
    };
    Answer::Drawn((0..advance.draft_length).map(draw).collect())
}

pub(crate) fn chi_square(counts: &[u64; 4], law: &[f64; 4]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    counts.iter().zip(law).map(|(&count, p)| (count as f64 - total * p).powi(2) / (total * p)).sum()
}

/// A target [.1 .2 .3 .4] and a draft [.4 .3 .2 .1]: the output is the target's, 0.6 of the draft's tokens are accepted,
/// and after a rejection only tokens that the target likes more than the draft appear.
#[tokio::test(flavor = "multi_thread")]
async fn the_output_has_the_law_of_the_target() {
    let verifier = Verifier::with_draft(skewed(), &FakeDraft::new(|advance| reversed(advance, 0)), options()).await;
    let (mut counts, mut n_tested, mut n_accepted) = ([0_u64; 4], 0, 0);
    for index in 0..20_u32 {
        let prompt = [index % 15, index / 15, 5];
        let outcome = verifier.generate(sampled(&prompt, 1000, None)).await;
        outcome.assert_consistent();
        for token in outcome.rounds.iter().flat_map(|round| &round.tokens) {
            counts[token.token_id as usize] += 1;
            if token.origin() == v1::TokenOrigin::Corrected {
                assert!(token.token_id >= 2, "the residual is [0 0 .25 .75]");
            }
        }
        n_tested += outcome.speculation().tested_per_position.iter().sum::<u32>();
        n_accepted += outcome.speculation().accepted;
    }
    // 3 degrees of freedom; false alarms: one in a million.
    assert!(chi_square(&counts, &TARGET) < 30.7, "{counts:?}");
    let rate = f64::from(n_accepted) / f64::from(n_tested);
    assert!((rate - 0.6).abs() < 0.03, "{rate}");
    // The same counts would not pass for the draft's law.
    assert!(chi_square(&counts, &[0.4, 0.3, 0.2, 0.1]) > 1000.0);
}

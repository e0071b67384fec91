//! The real models: a seed, whatever drafts.

use futures::future::join_all;
use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SamplingParams, TokenOrigin};
use specfleet_model::load::{Dtype, Operators};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts::{self, Drafts},
    in_process::{Draft, Verifier},
    known_text::KnownText,
    outcome::Outcome,
    real_models, report, scripted_pair,
};

const KV_TOKENS: usize = 16 * 1024;

fn request(prompt: &[TokenId], n_tokens: usize, seed: u64) -> GenerateRequest {
    let sampling = SamplingParams { temperature: Some(0.8), top_p: Some(0.95), ..SamplingParams::default() };
    GenerateRequest {
        sampling: Some(sampling),
        seed: Some(seed),
        ignore_eos: true,
        ..scripted_pair::request(prompt, n_tokens as u32)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_gives_one_text_with_any_draft_length_crowd_and_process() {
    let (n_prompts, n_tokens) = if real_models::long_form() { (10, 200) } else { (2, 40) };
    let _turn = real_models::turn().await;
    let (first, second) = (real_models::draft(), real_models::draft_of(Dtype::Bf16));
    let Some(target) = real_models::target(Dtype::Bf16, Operators::Fused, KV_TOKENS) else { return };
    let prompts = real_models::prompts(&target, n_prompts);
    let known = KnownText::new(target.model.description().vocab_size);
    let mut drafts = Drafts::of_every_kind(first, &known);
    drafts.add("second version", Draft::start(second, drafts::options()));
    let verifier = Verifier::start(target, drafts.channels(), scripted_pair::settings().verifier);
    verifier.wait_for_drafts().await;

    let mut texts = Vec::new();
    for (seed, prompt) in (7..).zip(&prompts) {
        let plain = GenerateRequest { speculation: Some(drafts::off()), ..request(prompt, n_tokens, seed) };
        let text = Outcome::of(&verifier.client, plain).await.unwrap().token_ids();
        known.learn(prompt, &text);
        let next_seed = GenerateRequest { speculation: Some(drafts::off()), ..request(prompt, n_tokens, seed + 1) };
        assert_ne!(
            Outcome::of(&verifier.client, next_seed).await.unwrap().token_ids(),
            text,
            "seed {seed} and the next"
        );
        texts.push(text);
    }

    let mut figures = vec![[0_usize; 2]; drafts.len()];
    for (draft, [proposed, accepted]) in figures.iter_mut().enumerate() {
        // All prompts at once, with lengths that take turns.
        let run = |(index, prompt)| {
            let speculation = Some(drafts.only(draft, 1 + ((index + 3 * draft) % 8) as u32));
            let seed = 7 + index as u64;
            Outcome::of(&verifier.client, GenerateRequest { speculation, ..request(prompt, n_tokens, seed) })
        };
        let outcomes = join_all(prompts.iter().map(Vec::as_slice).enumerate().map(run)).await;
        for (outcome, text) in outcomes.into_iter().zip(&texts) {
            let outcome = outcome.unwrap();
            assert_eq!(outcome.token_ids(), *text, "draft {:?}", drafts.name(draft));
            assert_eq!(outcome.speculation().rule(), AcceptanceRule::DraftInvariant);
            *proposed += outcome.speculation().proposed as usize;
            *accepted += outcome.count(TokenOrigin::Accepted);
        }
    }
    let rows = figures.iter().enumerate().map(|(draft, [proposed, accepted])| {
        [drafts.name(draft).to_owned(), texts.len().to_string(), proposed.to_string(), accepted.to_string()]
    });
    report::print("Seeded text, draft-invariant rule", ["draft", "equal texts", "proposed", "accepted"], rows);

    drop(verifier);
    let target = real_models::target(Dtype::Bf16, Operators::Fused, KV_TOKENS).unwrap();
    let restarted = Verifier::start(target, drafts.channels(), scripted_pair::settings().verifier);
    restarted.wait_for_drafts().await;
    let again = Outcome::of(&restarted.client, request(&prompts[0], n_tokens, 7)).await.unwrap();
    assert_eq!(again.token_ids(), texts[0], "after a restart");
}

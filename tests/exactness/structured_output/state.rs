//! The state of a grammar is that of the committed tokens: however they came about, and wherever they were computed.

use futures::future::join_all;
use specfleet_client::{
    Client,
    v1::{FinishReason, GenerateRequest, SamplingParams, SpeculationOptions, TokenOrigin},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    in_process::{Draft, Pair, Verifier},
    outcome::Outcome,
    scripted_pair::{request, settings},
};

use super::{
    json::{assert_valid, by_schema, noise, text, tokenizer},
    loaded,
};

/// Greedy where `seed` is `None`.
fn asked(prompt: TokenId, seed: Option<u64>, speculation: SpeculationOptions) -> GenerateRequest {
    let temperature = if seed.is_some() { 1.2 } else { 0.0 };
    let sampling = SamplingParams { temperature: Some(temperature), ..SamplingParams::default() };
    by_schema(GenerateRequest {
        sampling: Some(sampling),
        seed,
        speculation: Some(speculation),
        ..request(&[prompt, 1], 400)
    })
}

fn of_length(n: u32) -> SpeculationOptions {
    SpeculationOptions { max_draft_length: Some(n), ..SpeculationOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_is_equal_with_speculation_and_without() {
    let tokenizer = tokenizer();
    let draft = Draft::start(loaded(noise(3), &tokenizer), settings().draft);
    let recalling =
        specfleet_draft_service::Options { recalled_ngram: Some(2.try_into().unwrap()), ..settings().draft };
    let recalling = Draft::start(loaded(noise(3), &tokenizer), recalling);
    let lookup = Draft::lookup(settings().draft);
    let drafts = [&draft, &recalling, &lookup];
    let channels = drafts.iter().map(|draft| ("draft".to_owned(), draft.channel())).collect();
    let verifier = Verifier::start(loaded(noise(2), &tokenizer), channels, settings().verifier);
    verifier.wait_for_drafts().await;
    for draft in drafts {
        let (mut n_accepted, mut n_corrected) = (0, 0);
        for index in 0..16 {
            let seed = (index % 4 > 0).then_some(u64::from(index));
            let run = async |speculation| Outcome::of(&verifier.client, asked(index, seed, speculation)).await.unwrap();
            let plain = run(drafts::off()).await;
            let speculative = run(drafts::only(draft, 1 + index % 8)).await;
            assert_eq!(text(&plain), text(&speculative));
            assert_eq!(plain.token_ids(), speculative.token_ids());
            assert_valid(&text(&plain));
            n_accepted += speculative.count(TokenOrigin::Accepted);
            n_corrected += speculative.count(TokenOrigin::Corrected);
        }
        assert!(n_corrected > 0, "{n_accepted} accepted, {n_corrected} corrected");
    }
}

async fn seeded(client: &Client, n: u64) -> Vec<Outcome> {
    let run = |seed| Outcome::of(client, asked(seed as TokenId % 20, Some(seed), of_length(4)));
    join_all((0..n).map(run)).await.into_iter().map(Result::unwrap).collect()
}

/// Pre-empted requests are computed anew. Their grammar goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_outlives_the_kv_memory() {
    const N_REQUESTS: u64 = 24;
    let tokenizer = tokenizer();
    let (mut texts, mut preemptions) = (Vec::new(), Vec::new());
    // All of them, or two.
    for kv_tokens in [1 << 14, 448] {
        let target = loaded(noise(2).with_kv_tokens(kv_tokens), &tokenizer);
        let pair = Pair::start(target, loaded(noise(3), &tokenizer), settings()).await;
        let outcomes = seeded(&pair.client, N_REQUESTS).await;
        for outcome in &outcomes {
            assert_eq!(outcome.finished.reason(), FinishReason::Stop);
            assert_valid(&text(outcome));
        }
        texts.push(outcomes.iter().map(text).collect::<Vec<_>>());
        preemptions.push(pair.verifier.metric("specfleet_verifier_preemptions_total", ""));
    }
    assert_eq!(texts[0], texts[1]);
    assert!(preemptions[0] == 0.0 && preemptions[1] > 0.0, "{preemptions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_continuation_has_a_state_of_its_own() {
    const N: u32 = 6;
    let tokenizer = tokenizer();
    let pair = Pair::start(loaded(noise(2), &tokenizer), loaded(noise(3), &tokenizer), settings()).await;
    let request = GenerateRequest { n: N, ..asked(3, Some(11), of_length(3)) };
    let outcome = Outcome::of(&pair.client, request).await.unwrap();
    let text_of = |index: u32| -> String {
        let rounds = outcome.rounds.iter().filter(|round| round.choice_index == index);
        rounds.flat_map(|round| &round.tokens).map(|token| &*token.text).collect()
    };
    let mut texts: Vec<String> = (0..N).map(text_of).collect();
    texts.iter().for_each(|text| assert_valid(text));
    texts.sort();
    texts.dedup();
    assert!(texts.len() > 3, "{texts:?}");
}

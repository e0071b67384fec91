//! The real models: nobody can enumerate what they write, but speculation may not change it. The same requests run with
//! it and without, and two samples of the first tokens must come from one law. Top-k keeps the ways few in which a text
//! can go on, so that a few hundred samples say something.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use specfleet_client::{
    Client, request,
    v1::{AcceptanceRule, GenerateRequest, SamplingParams, SpeculationOptions},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::{Pair, Settings},
    outcome::Outcome,
    real_models::{self, long_form},
    report, scripted_pair,
};

use super::two_samples;

/// Texts to go on with.
const PROMPTS: [&str; 3] = ["The weather today is", "She opened the door and", "My favourite colour is"];

/// Tokens that are compared. The first comes from the prompt's own pass, the others from rounds.
const LENGTH: usize = 3;
/// Requests at a time.
const CONCURRENCY: usize = 8;

/// How often each beginning of a text occurred, with speculation and without.
type Counts = BTreeMap<Vec<TokenId>, [u64; 2]>;

fn request(prompt: &str, speculates: bool, seed: u64) -> GenerateRequest {
    GenerateRequest {
        // One more than is compared, so that the round that matters has two draft tokens.
        max_tokens: Some(LENGTH as u32 + 1),
        sampling: Some(SamplingParams { temperature: Some(0.8), top_k: Some(8), ..SamplingParams::default() }),
        ignore_eos: true,
        seed: Some(seed),
        speculation: Some(SpeculationOptions {
            off: !speculates,
            rule: AcceptanceRule::Standard.into(),
            ..SpeculationOptions::default()
        }),
        ..request::text(prompt)
    }
}

/// Both sides of a prompt, in turns.
async fn sample(client: &Client, prompt: &str, n_requests: u64) -> (Counts, f64) {
    let (mut counts, mut n_tested, mut n_accepted) = (Counts::new(), 0, 0);
    // No seed on both sides: under one seed both take the same number for the first token.
    let mut outcomes = stream::iter(0..2 * n_requests)
        .map(|seed| async move {
            let speculates = seed % 2 == 0;
            (usize::from(speculates), Outcome::of(client, request(prompt, speculates, seed)).await.unwrap())
        })
        .buffer_unordered(CONCURRENCY);
    while let Some((side, outcome)) = outcomes.next().await {
        let mut tokens = outcome.token_ids();
        tokens.truncate(LENGTH);
        counts.entry(tokens).or_default()[side] += 1;
        n_tested += outcome.n_tested();
        n_accepted += outcome.speculation().accepted;
    }
    (counts, f64::from(n_accepted) / f64::from(n_tested))
}

/// The first `length` tokens alone.
fn beginnings(counts: &Counts, length: usize) -> Counts {
    let mut shorter = Counts::new();
    for (tokens, both) in counts {
        let cell = shorter.entry(tokens[..length].to_vec()).or_default();
        (0..2).for_each(|side| cell[side] += both[side]);
    }
    shorter
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn speculation_does_not_change_what_the_real_target_writes() {
    let n_requests = if long_form() { 10_000 } else { 200 };
    let _turn = real_models::turn().await;
    let verifier = scripted_pair::settings().verifier;
    let pair = Pair::from_environment(Settings { verifier, ..Settings::default() }).await;
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for prompt in PROMPTS {
        let (counts, share_accepted) = sample(&pair.client, prompt, n_requests).await;
        for length in 2..=LENGTH {
            let beginnings = beginnings(&counts, length);
            let test = two_samples::compare(beginnings.values().copied());
            if !test.passes() {
                failed.push(format!("{prompt}, {length} tokens: {test}"));
            }
            rows.push([
                format!("{prompt} ... ({length})"),
                n_requests.to_string(),
                beginnings.len().to_string(),
                test.degrees.to_string(),
                format!("{:.1}", test.statistic),
                format!("{:.1}", test.threshold()),
                format!("{:.1}%", 100.0 * share_accepted),
            ]);
        }
    }
    let header = ["text (tokens compared)", "each side", "seen", "df", "chi-square", "threshold", "accepted"];
    report::print("The real pair at temperature 0.8 and top-k 8: with speculation against without", header, rows);
    assert!(failed.is_empty(), "speculation changes the law: {failed:?}");
}

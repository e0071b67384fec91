//! Does speculation pay where it must, and what does it cost where it cannot? With scripted times: a step of the target
//! takes 20 ms however many rows it has, a token of the draft 2 ms.
//!
//! What is promised: a perfect draft comes near the ideal. What is not: a draft whose tokens are always wrong costs its
//! own time in every round, here 8 ms on top of 20. Drafts rest under load (`--verify-rows`) and when they are late, but
//! not yet because they are bad.

use std::time::{Duration, Instant};

use futures::future::join_all;
use specfleet_client::v1::{GenerateRequest, SpeculationOptions};
use specfleet_speculation::TokenId;
use specfleet_tests::scripted_pair::{END, ScriptedPair, request, settings};

use crate::support::{certain, winding};

const TARGET_STEP: Duration = Duration::from_millis(20);
const DRAFT_STEP: Duration = Duration::from_millis(2);
const DRAFT_LENGTH: u32 = 4;
/// After the first, a whole number of rounds of five.
const N_TOKENS: u32 = 61;

async fn pair(draft: impl Fn(&[TokenId]) -> TokenId + Send + 'static) -> ScriptedPair {
    let target = certain(winding).with_delay(TARGET_STEP);
    let mut settings = settings();
    // A round of all streams is one step.
    settings.verifier.step_tokens = 32 * (DRAFT_LENGTH as usize + 1);
    ScriptedPair::of_models(target, certain(draft).with_delay(DRAFT_STEP), settings).await
}

/// How long `n_streams` take at once.
async fn time(pair: &ScriptedPair, n_streams: u32, draft_length: u32) -> Duration {
    let started = Instant::now();
    let requests = (0..n_streams).map(|index| {
        let speculation = SpeculationOptions { max_draft_length: Some(draft_length), ..SpeculationOptions::default() };
        let prompt = [index % 15, index / 15];
        pair.generate(GenerateRequest { speculation: Some(speculation), ..request(&prompt, N_TOKENS) })
    });
    join_all(requests).await;
    started.elapsed()
}

/// How many times faster than plain decoding.
async fn speedup(pair: &ScriptedPair, n_streams: u32) -> f64 {
    let plain = time(pair, n_streams, 0).await;
    // The better of two: a busy machine only ever adds.
    let drafted = time(pair, n_streams, DRAFT_LENGTH).await.min(time(pair, n_streams, DRAFT_LENGTH).await);
    let speedup = plain.as_secs_f64() / drafted.as_secs_f64();
    println!("{n_streams} streams: plain {plain:?}, drafted {drafted:?}, {speedup:.2} times");
    speedup
}

fn batches() -> &'static [u32] {
    if std::env::var_os("SPECFLEET_TEST_LONG").is_some() { &[1, 8, 32] } else { &[1, 8] }
}

/// Ideal: five tokens for 20 + 8 ms instead of five times 20, which is 3.57 times.
#[tokio::test(flavor = "multi_thread")]
async fn a_perfect_draft_pays_alone_and_in_a_batch() {
    let pair = pair(winding).await;
    for &n_streams in batches() {
        let speedup = speedup(&pair, n_streams).await;
        assert!(speedup > 2.5, "{n_streams} streams: {speedup:.2}");
    }
}

/// One token for 20 + 8 ms instead of 20: 0.71 of plain decoding. What is missing of it is the time in which threads of a
/// busy machine wake up, a few times a round.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_always_wrong_costs_its_own_time_and_no_more() {
    let pair = pair(|prefix| (winding(prefix) + 1) % END).await;
    for &n_streams in batches() {
        let speedup = speedup(&pair, n_streams).await;
        assert!(speedup > 0.5, "{n_streams} streams: {speedup:.2}");
    }
}

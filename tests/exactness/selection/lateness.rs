//! A round does not wait for ever, and what comes too late is not tested. So long proposals, which take long, must not be
//! late more often than short ones: a draft is told how long it has, which is less than the verifier waits, and ends its
//! proposal in time, before a draw.
//!
//! What is assumed beyond that is that no token by itself makes a draft late. A draft that breaks this assumption is here
//! too, to show that it is one.

use std::{sync::mpsc, time::Duration};

use futures::{StreamExt, stream};
use specfleet_model::scripted::{ScriptedModel, table::Table};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    real_models::long_form,
    scripted_pair::{N_VOCAB, ScriptedPair, model, settings},
};

use super::{DRAFT, Draws, FORK, TARGET, request};

const N_TOKENS: usize = 100;

/// Texts of requests, so many at a time, in the order of their seeds.
async fn draw(pair: &ScriptedPair, n_requests: usize, draft_length: usize, concurrency: usize) -> (Draws, u32) {
    let requests = (0..n_requests).map(|seed| request(&[3, FORK], N_TOKENS, draft_length, seed));
    let mut outcomes = stream::iter(requests).map(|request| pair.generate(request)).buffered(concurrency);
    let (mut draws, mut n_tested) = (Draws::default(), 0);
    while let Some(outcome) = outcomes.next().await {
        draws.read(&outcome.token_ids());
        n_tested += outcome.n_tested();
    }
    (draws, n_tested)
}

/// A token takes 10 ms. The verifier waits for 60 ms and gives the draft 40 of them: for three of the eight tokens that it
/// asks for. All eight would take 80 ms, and the two of a short proposal take 20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_draft_ends_long_proposals_in_time() {
    let mut settings = settings();
    settings.draft.least_chance = 0.3;
    settings.verifier.draft_wait = Duration::from_millis(60);
    let draft = model(DRAFT).with_delay(Duration::from_millis(10));
    let pair = ScriptedPair::of_models(model(TARGET), draft, settings).await;
    let (draws, n_tested) = draw(&pair, if long_form() { 320 } else { 32 }, 8, 16).await;
    let n_out_of_time = pair.draft.metric("specfleet_draft_out_of_time_total", "");
    let caught_after = draws.judge(&format!(
        "A slow draft: {n_tested} tokens tested, {n_out_of_time} proposals ended for want of time, and {} came late",
        pair.verifier.metric("specfleet_verifier_dropped_proposals_total", "late"),
    ));
    assert_eq!(caught_after, None);
    assert!(n_out_of_time > 20.0, "the draft was never short of time");
}

/// After it has drawn 0 behind id 2, this draft computes until the verifier has lost its patience, whatever that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_that_is_late_because_of_a_token_is_caught() {
    let mut settings = settings();
    settings.verifier.draft_wait = Duration::from_millis(20);
    let [target, draft] = [TARGET, DRAFT].map(|table| Table::parse(table, N_VOCAB).unwrap());
    let (passes, passed) = mpsc::channel();
    let target = ScriptedModel::from_fn(N_VOCAB, move |prefix| {
        // Nobody counts them once the draft has gone.
        let _ = passes.send(());
        target.logits(prefix)
    })
    // Few of its tokens come while the late answer is on its way.
    .with_delay(Duration::from_millis(1));
    let draft = ScriptedModel::from_fn(N_VOCAB, move |prefix: &[TokenId]| {
        if prefix.ends_with(&[FORK, 0]) {
            passed.try_iter().for_each(drop);
            let _ = passed.recv();
        }
        draft.logits(prefix)
    });
    let pair = ScriptedPair::of_models(target, draft.with_weights_digest([1; 32]), settings).await;
    let (draws, _) = draw(&pair, 24, 2, 1).await;
    let caught_after = draws.judge("A draft that is late when it has drawn 0");
    assert!(caught_after.is_some());
}

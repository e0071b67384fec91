//! How often is the draft right about greedy text?
//!
//! That is a property of the two models. A fault in the draft's memory, in what it is told of the prefix or in what is
//! reused of an earlier request changes no text, so nobody sees it but in the speed, and here.

use specfleet_client::v1::{GenerateRequest, SamplingParams, SpeculationOptions};
use specfleet_model::load::{Dtype, Operators};
use specfleet_tests::{
    in_process::Pair,
    outcome::Outcome,
    real_models,
    scripted_pair::{request, settings},
};

/// Accepted of the draft tokens proposed, in the first pass. Rows have the same bits on every machine with the fused
/// operators, and so has this figure.
const MEASURED: f64 = 0.2;
/// The most that may be lost of it.
const MOST_LOST: f64 = 0.05;

#[tokio::test(flavor = "multi_thread")]
async fn the_draft_is_accepted_as_often_as_ever() {
    let _turn = real_models::turn().await;
    let draft = real_models::draft();
    let Some(target) = real_models::target(Dtype::Bf16, Operators::Fused, 16 * 1024) else { return };
    let prompts = real_models::prompts(&target, 6);
    // No draft is late: whether a proposal comes in time must not decide which positions are tested.
    let pair = Pair::start(target, draft, settings()).await;
    let mut rates = Vec::new();
    for pass in ["first", "with a known prefix"] {
        let (mut proposed, mut accepted) = (0, 0);
        for prompt in &prompts {
            let sampling = SamplingParams { temperature: Some(0.0), ..SamplingParams::default() };
            let speculation = SpeculationOptions { max_draft_length: Some(3), ..SpeculationOptions::default() };
            let wire = GenerateRequest {
                sampling: Some(sampling),
                speculation: Some(speculation),
                ignore_eos: true,
                ..request(prompt, 64)
            };
            let outcome = Outcome::of(&pair.client, wire).await.unwrap();
            proposed += outcome.speculation().proposed;
            accepted += outcome.speculation().accepted;
        }
        let rate = f64::from(accepted) / f64::from(proposed);
        println!("{pass}: {accepted} of {proposed} draft tokens accepted, {rate:.3}");
        rates.push(rate);
    }
    assert!(rates[0] > MEASURED - MOST_LOST, "{:.3}, measured was {MEASURED}", rates[0]);
    assert!((rates[1] - rates[0]).abs() < 1e-9, "the draft must not be worse after a cache hit: {rates:?}");
}

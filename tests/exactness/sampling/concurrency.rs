//! Whose random numbers decide when many requests share a pass?

use specfleet_tests::scripted_pair::{ScriptedPair, settings};

use super::{
    FALLING, RISING, Report,
    draws::{Plan, Sample, Seeds},
    law::Law,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_alone_and_among_others_with_seeds_and_without() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    let mut report = Report::new("Requests at a time; target rising, draft falling, draft length 3");
    for concurrency in [1, 4, 16] {
        for (seeds, name) in [
            (Seeds::Unknown, "standard, no seed"),
            (Seeds::Standard, "standard, seeded"),
            (Seeds::DraftInvariant, "draft-invariant, seeded"),
        ] {
            let plan = Plan { concurrency, seeds, ..Plan::default() };
            report.case(format!("{concurrency} at a time, {name}"), &pair.client, &plan, RISING).await;
        }
    }
    pair.verifier.wait_until_idle().await;
    report.finish();
}

/// A test that never fails says nothing: the same draws are not taken for the draft's, nor for draws at temperature 1.5,
/// under which the statistic is expected 5 of its standard deviations above the threshold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_law_is_told_apart() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    let plan = Plan::default();
    let sample = Sample::draw(&pair.client, &plan).await;
    assert!(sample.judge(&Law::new(RISING, &plan.sampling), 1).passes());
    assert!(!sample.judge(&Law::new(FALLING, &plan.sampling), 1).passes());
    let mut warmer = plan.sampling;
    warmer.temperature = Some(1.5);
    assert!(!sample.judge(&Law::new(RISING, &warmer), 1).passes());
}

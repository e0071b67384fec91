//! Every transform applies to p and q, at every position.

use specfleet_client::v1::{LogitBias, SamplingParams};
use specfleet_tests::{
    real_models::long_form,
    scripted_pair::{ScriptedPair, settings},
};

use super::{
    FALLING, RISING, Report,
    draws::{Draw, Plan, Sample, Seeds},
    law::Law,
};

/// Close to the target: truncated to the same number of ids, the two have most of them in common, but not all.
const SWAPPED: &str = include_str!("tables/swapped.txt");

const DRAFTS: [(&str, &str); 2] = [("falling", FALLING), ("swapped", SWAPPED)];
const RULES: [(Seeds, &str); 2] = [(Seeds::Standard, "standard"), (Seeds::DraftInvariant, "draft-invariant")];

/// Favours ids that the target dislikes, and takes away one that it likes.
fn bias() -> Vec<LogitBias> {
    [(0, 2.0), (2, 1.5), (13, -1.0), (14, -100.0)].map(|(token_id, bias)| LogitBias { token_id, bias }).to_vec()
}

/// That look at one row alone, then all of them.
fn transforms_of_a_row() -> [(&'static str, SamplingParams); 7] {
    let neutral = SamplingParams::default;
    [
        ("temperature 0.5", SamplingParams { temperature: Some(0.5), ..neutral() }),
        ("temperature 2", SamplingParams { temperature: Some(2.0), ..neutral() }),
        ("top-p 0.7", SamplingParams { top_p: Some(0.7), ..neutral() }),
        ("top-k 5", SamplingParams { top_k: Some(5), ..neutral() }),
        ("min-p 0.4", SamplingParams { min_p: Some(0.4), ..neutral() }),
        ("logit bias", SamplingParams { logit_bias: bias(), ..neutral() }),
        (
            "all of these",
            SamplingParams {
                temperature: Some(0.8),
                top_p: Some(0.9),
                top_k: Some(12),
                min_p: Some(0.1),
                logit_bias: bias(),
                ..neutral()
            },
        ),
    ]
}

/// That look at what came before, then every transform there is.
fn transforms_with_a_memory() -> [(&'static str, SamplingParams); 6] {
    let neutral = SamplingParams::default;
    [
        ("repetition penalty 1.5", SamplingParams { repetition_penalty: Some(1.5), ..neutral() }),
        ("presence penalty 1.2", SamplingParams { presence_penalty: Some(1.2), ..neutral() }),
        ("frequency penalty 1.2", SamplingParams { frequency_penalty: Some(1.2), ..neutral() }),
        ("frequency penalty -1", SamplingParams { frequency_penalty: Some(-1.0), ..neutral() }),
        ("min_tokens 2", SamplingParams { min_tokens: 2, ..neutral() }),
        (
            "every transform at once",
            SamplingParams {
                temperature: Some(0.8),
                top_p: Some(0.9),
                top_k: Some(12),
                min_p: Some(0.05),
                repetition_penalty: Some(1.3),
                presence_penalty: Some(0.5),
                frequency_penalty: Some(0.4),
                logit_bias: bias(),
                min_tokens: 2,
                ..neutral()
            },
        ),
    ]
}

/// Transforms that look at one row alone: every token of a long request is a draw.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_under_each_transform_of_a_row() {
    let mut report = Report::new("Transforms of one row; target rising, draft length 3, 4 requests at a time, seeded");
    for (draft_name, draft) in DRAFTS {
        let pair = ScriptedPair::start(RISING, draft, settings()).await;
        for (name, sampling) in transforms_of_a_row() {
            for (seeds, rule) in RULES {
                let plan = Plan { sampling: sampling.clone(), seeds, ..Plan::default() };
                report.case(format!("{name}, {rule}, draft {draft_name}"), &pair.client, &plan, RISING).await;
            }
        }
    }
    report.finish();
}

/// Transforms that look at what came before: a request is one draw, of three tokens or up to the end token. The second
/// and the third are draft positions of one round, so the third row must count a draft token that is not committed yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_under_each_transform_with_a_memory() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    let mut report = Report::new("Transforms with a memory; the first tokens of each request, judged together; seeded");
    for (name, sampling) in transforms_with_a_memory() {
        for (seeds, rule) in RULES {
            let draw = Draw::Beginning { length: 3 };
            let plan = Plan { sampling: sampling.clone(), draw, seeds, concurrency: 16, ..Plan::default() };
            let sample = Sample::draw(&pair.client, &plan).await;
            let law = Law::new(RISING, &plan.sampling);
            for length in [2, 3] {
                report.judge(format!("{name}, {length} tokens, {rule}"), &sample, &law, length);
            }
        }
    }
    report.finish();
}

/// The same alone and in a crowd, with seeds and without. The short form has each transform of a row, and every transform at
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_under_each_transform_in_any_company() {
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    let mut report = Report::new("Transforms by requests at a time; target rising, draft falling, draft length 3");
    let of_a_row = transforms_of_a_row().map(|(name, sampling)| (name, sampling, Plan::default().draw));
    let with_a_memory =
        transforms_with_a_memory().map(|(name, sampling)| (name, sampling, Draw::Beginning { length: 3 }));
    let n_skipped = if long_form() { 0 } else { with_a_memory.len() - 1 };
    for (name, sampling, draw) in of_a_row.into_iter().chain(with_a_memory.into_iter().skip(n_skipped)) {
        for concurrency in [1, 4, 16] {
            for (seeds, rule) in [(Seeds::Unknown, "standard, no seed")].into_iter().chain(RULES) {
                if concurrency == 16 && matches!(draw, Draw::Beginning { .. }) && !matches!(seeds, Seeds::Unknown) {
                    continue; // The table of transforms with a memory has these.
                }
                let plan = Plan { sampling: sampling.clone(), draw, seeds, concurrency, ..Plan::default() };
                report.case(format!("{name}, {concurrency} at a time, {rule}"), &pair.client, &plan, RISING).await;
            }
        }
    }
    report.finish();
}

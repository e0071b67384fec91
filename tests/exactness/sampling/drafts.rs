//! The law may not depend on the draft: not on how many tokens it proposes, and not on which.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use specfleet_draft_service::LookupOptions;
use specfleet_model::scripted::{ScriptedModel, table::Table};
use specfleet_speculation::propose::Support;
use specfleet_tests::{
    in_process::{Draft, Verifier},
    scripted_pair::{N_VOCAB, ScriptedPair, loaded, model, settings},
};

use super::{
    FALLING, RISING, Report,
    draws::{DraftLength, Draw, Plan, Seeds},
};

const LOWER_HALF: &str = include_str!("tables/lower_half.txt");
const UPPER_HALF: &str = include_str!("tables/upper_half.txt");
const DISLIKED: &str = include_str!("tables/disliked.txt");
const ONE_ID: &str = include_str!("tables/one_id.txt");
const RING: &str = include_str!("tables/ring.txt");
const RING_REVERSED: &str = include_str!("tables/ring_reversed.txt");

const RULES: [(Seeds, &str); 2] = [(Seeds::Unknown, "standard"), (Seeds::DraftInvariant, "draft-invariant")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_for_every_draft_length() {
    let mut report = Report::new("Draft lengths; target rising, draft falling, 4 requests at a time");
    let pair = ScriptedPair::start(RISING, FALLING, settings()).await;
    for (seeds, rule) in RULES {
        for length in 0..=4 {
            let plan = Plan { draft_length: DraftLength::Fixed(length), seeds, ..Plan::default() };
            report.case(format!("{length} a round, {rule}"), &pair.client, &plan, RISING).await;
        }
    }
    // Alone a request may have 7 draft tokens a round, beside one other 3, beside two others 1: lengths change in the
    // middle of requests as others come and go.
    let mut narrow = settings();
    narrow.verifier.verify_rows = 8;
    let pair = ScriptedPair::start(RISING, FALLING, narrow).await;
    for (seeds, rule) in RULES {
        let plan = Plan { draft_length: DraftLength::Changing, seeds, concurrency: 3, ..Plan::default() };
        report.case(format!("changing from 0 to 4, {rule}"), &pair.client, &plan, RISING).await;
    }
    report.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_for_every_draft() {
    let mut report = Report::new("Drafts; draft length 3, 4 requests at a time");
    let top_three = Support::Top(3.try_into().unwrap());
    for (name, target, draft, support) in [
        ("never what the target likes", RISING, DISLIKED, Support::default()),
        ("disjoint supports", LOWER_HALF, UPPER_HALF, Support::default()),
        ("the target itself", RISING, RISING, Support::default()),
        ("one id only", RISING, ONE_ID, Support::default()),
        ("cut to its three likeliest", RISING, FALLING, top_three),
    ] {
        let mut settings = settings();
        settings.draft.support = support;
        let pair = ScriptedPair::start(target, draft, settings).await;
        for (seeds, rule) in RULES {
            let plan = Plan { seeds, ..Plan::default() };
            let sample = report.case(format!("{name}, {rule}"), &pair.client, &plan, target).await;
            match draft {
                UPPER_HALF => assert_eq!(sample.share_accepted(), Some(0.0)),
                // Whole weights differ from p in the seventh digit.
                RISING => assert!(sample.share_accepted() > Some(0.999)),
                _ => {}
            }
        }
    }
    report.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_for_a_draft_that_knows_fewer_ids() {
    let mut report = Report::new("A draft with a head of 5 ids; draft length 3, 4 requests at a time");
    let five_ids = model(FALLING).with_draft_vocab(vec![0, 3, 4, 11, 15]);
    let pair = ScriptedPair::of_models(model(RISING), five_ids, settings()).await;
    for (seeds, rule) in RULES {
        let plan = Plan { seeds, ..Plan::default() };
        report.case(rule, &pair.client, &plan, RISING).await;
    }
    report.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_for_prompt_lookup() {
    let mut report = Report::new("Prompt lookup, which proposes points; draft length 3, 4 requests at a time");
    let draft = Draft::lookup(settings().draft);
    let drafts = vec![("lookup".to_owned(), draft.channel())];
    let verifier = Verifier::start(loaded(model(RISING)), drafts, settings().verifier);
    verifier.wait_for_drafts().await;
    for (seeds, rule) in RULES {
        let plan = Plan { seeds, ..Plan::default() };
        report.case(rule, &verifier.client, &plan, RISING).await;
    }
    report.finish();
}

/// Six ids, of which three in a row come again after some hundred tokens: what lookup finds is proposed as points, and until
/// then the model drafts, where it starts from a text of which it has not seen all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_law_holds_for_prompt_lookup_before_a_model() {
    let mut report = Report::new("Prompt lookup, then a model; draft length 3, 4 requests at a time");
    let mut settings = settings();
    settings.draft.recalled_ngram = Some(LookupOptions::default().longest_ngram);
    let n_rows = Arc::new(AtomicU64::new(0));
    let (table, count) = (Table::parse(RING_REVERSED, N_VOCAB).unwrap(), n_rows.clone());
    let draft = ScriptedModel::from_fn(N_VOCAB, move |prefix| {
        count.fetch_add(1, Relaxed);
        table.logits(prefix)
    });
    let pair = ScriptedPair::of_models(model(RING), draft, settings).await;
    for (seeds, rule) in RULES {
        for length in [1, 3] {
            let plan = Plan { draw: Draw::Piece { length, context: 1 }, seeds, ..Plan::default() };
            report.case(format!("{length} in a row, {rule}"), &pair.client, &plan, RING).await;
        }
    }
    let n_proposed = pair.draft.metric("specfleet_draft_tokens_proposed_total", "");
    let by_model = n_rows.load(Relaxed) as f64 / n_proposed;
    assert!((0.2..0.8).contains(&by_model), "both draft: {by_model} of the tokens come from the model");
    report.finish();
}

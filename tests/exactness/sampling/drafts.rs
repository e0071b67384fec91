//! The law may not depend on the draft: not on how many tokens it proposes, and not on which.

use specfleet_speculation::propose::Support;
use specfleet_tests::{
    in_process::{Draft, Verifier},
    scripted_pair::{ScriptedPair, loaded, model, settings},
};

use super::{
    FALLING, RISING, Report,
    draws::{DraftLength, Plan, Seeds},
};

const LOWER_HALF: &str = include_str!("tables/lower_half.txt");
const UPPER_HALF: &str = include_str!("tables/upper_half.txt");
const DISLIKED: &str = include_str!("tables/disliked.txt");
const ONE_ID: &str = include_str!("tables/one_id.txt");

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

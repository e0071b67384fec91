//! Each token alone can have the right law while neighbours depend on each other: a random number that two positions
//! share does that, and so does a row that belongs to another prefix.

use specfleet_tests::scripted_pair::{ScriptedPair, model, settings};

use super::{
    FALLING, RISING, Report,
    draws::{DraftLength, Draw, Plan, Seeds},
};

const CHAIN: &str = include_str!("tables/chain.txt");
const CHAIN_REVERSED: &str = include_str!("tables/chain_reversed.txt");
const MOODY: &str = include_str!("tables/moody.txt");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbouring_tokens_have_their_joint_law() {
    let mut report = Report::new("Tokens in a row, judged together; draft length 3, 4 requests at a time");
    for (name, target, draft, context) in
        [("rising", RISING, FALLING, 0), ("chain, which depends on the last id", CHAIN, CHAIN_REVERSED, 1)]
    {
        let pair = ScriptedPair::start(target, draft, settings()).await;
        for (seeds, rule) in [
            (Seeds::Unknown, "standard, no seed"),
            (Seeds::Standard, "standard, seeded"),
            (Seeds::DraftInvariant, "draft-invariant"),
        ] {
            for length in [1, 2, 3] {
                let plan = Plan { draw: Draw::Piece { length, context }, seeds, ..Plan::default() };
                report.case(format!("{name}: {length} in a row, {rule}"), &pair.client, &plan, target).await;
            }
        }
    }
    report.finish();
}

/// How many tokens come then follows from which were drawn. Nothing that is done with a proposal may follow from that: not
/// even whether there is memory for it, which is scarce in the second half.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draft_may_end_where_it_doubts() {
    let mut report = Report::new("A draft that ends where it doubts; 4 tokens asked for, 4 requests at a time");
    let mut settings = settings();
    settings.draft.least_chance = 0.3;
    // Four requests of up to 422 tokens: all, or little more than one of them.
    for (memory, kv_tokens) in [("ample memory", 1 << 14), ("scarce memory", 512)] {
        let target = model(CHAIN).with_kv_tokens(kv_tokens);
        let pair = ScriptedPair::of_models(target, model(MOODY), settings.clone()).await;
        for (seeds, rule) in [(Seeds::Unknown, "standard"), (Seeds::DraftInvariant, "draft-invariant")] {
            for length in [1, 3] {
                let draw = Draw::Piece { length, context: 1 };
                let plan = Plan { draw, seeds, draft_length: DraftLength::Fixed(4), ..Plan::default() };
                report.case(format!("{memory}: {length} in a row, {rule}"), &pair.client, &plan, CHAIN).await;
            }
        }
        let n_preempted = pair.verifier.metric("specfleet_verifier_preemptions_total", "");
        assert_eq!(n_preempted > 0.0, kv_tokens == 512, "{memory}: {n_preempted} preemptions");
    }
    report.finish();
}

//! Each token alone can have the right law while neighbours depend on each other: a random number that two positions
//! share does that, and so does a row that belongs to another prefix.

use specfleet_tests::scripted_pair::{ScriptedPair, settings};

use super::{
    FALLING, RISING, Report,
    draws::{Draw, Plan, Seeds},
};

const CHAIN: &str = include_str!("tables/chain.txt");
const CHAIN_REVERSED: &str = include_str!("tables/chain_reversed.txt");

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

//! The end of a text is a token like any other: with speculation it has its own probability at every position.

use futures::future::join_all;
use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SpeculationOptions};
use specfleet_tests::{
    chi_square::ChiSquare,
    scripted_pair::{END, ScriptedPair, request, settings},
};

/// Half of the probability ends the text at every position, and the draft never proposes to end: the number of tokens
/// before the end is geometric, whatever the draft length.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_the_draft_never_proposes_keeps_its_probability() {
    const N_CELLS: usize = 8;
    const N_TEXTS: u64 = 4000;
    let pair = ScriptedPair::start(&format!("* -> 0:1 {END}:1"), "* -> 0:1", settings()).await;
    for draft_length in [1, 4] {
        let mut counts = [0; N_CELLS];
        for seeds in (0..N_TEXTS).collect::<Vec<_>>().chunks(50) {
            let texts = join_all(seeds.iter().map(|&seed| {
                let speculation = SpeculationOptions {
                    max_draft_length: Some(draft_length),
                    rule: AcceptanceRule::Standard.into(),
                    ..SpeculationOptions::default()
                };
                let wire = request(&[1], 64);
                pair.generate(GenerateRequest { seed: Some(seed), speculation: Some(speculation), ..wire })
            }));
            for text in texts.await {
                counts[(text.token_ids().len() - 1).min(N_CELLS - 1)] += 1;
            }
        }
        // The last cell holds all that is longer.
        let law: [f64; N_CELLS] = std::array::from_fn(|n| 0.5_f64.powi((n + 1).min(N_CELLS - 1) as i32));
        let test = ChiSquare::of(&counts, &law);
        assert!(test.passes(), "draft length {draft_length}: {counts:?}, {test}");
    }
    pair.verifier.wait_until_idle().await;
}

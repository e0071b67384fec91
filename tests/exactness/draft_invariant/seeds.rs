//! Random numbers belong to a request: not to a row of a batch, not to a moment, not to a process.

use std::collections::HashSet;

use futures::future::join_all;
use specfleet_client::v1::GenerateRequest;
use specfleet_speculation::TokenId;
use specfleet_tests::{
    outcome::Outcome,
    plain,
    scripted_pair::{self, ScriptedPair, settings},
};

use super::{lively, sampled, taste};
use crate::equality::winding;

const PROMPT: [TokenId; 2] = [2, 7];

async fn pair() -> ScriptedPair {
    ScriptedPair::of_models(lively(), taste(2, 4.0), settings()).await
}

async fn text(pair: &ScriptedPair, seed: Option<u64>) -> Vec<TokenId> {
    pair.generate(sampled(&PROMPT, 64, seed)).await.token_ids()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_fixes_the_text_alone_in_a_crowd_and_after_a_restart() {
    let first = pair().await;
    let expected = text(&first, Some(7)).await;
    assert_eq!(text(&first, Some(7)).await, expected, "again");
    let crowd = join_all((0..8).map(|index| first.generate(sampled(&[index], 64, None))));
    let (in_a_crowd, _) = tokio::join!(text(&first, Some(7)), crowd);
    assert_eq!(in_a_crowd, expected);
    drop(first);
    let restarted = pair().await;
    assert_eq!(text(&restarted, Some(7)).await, expected, "another verifier and another draft process");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_seed_has_a_text_of_its_own() {
    let pair = pair().await;
    let texts: HashSet<_> = join_all((0..100).map(|seed| text(&pair, Some(seed)))).await.into_iter().collect();
    assert_eq!(texts.len(), 100, "neighbouring seeds differ, 0 included");
    let largest = text(&pair, Some(u64::MAX)).await;
    assert!(!texts.contains(&largest));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_seed_two_runs_differ() {
    let pair = pair().await;
    assert_ne!(text(&pair, None).await, text(&pair, None).await);
}

/// Seeded and unseeded requests in one batch, shuffled two hundred times. The seeded ones repeat themselves; under a
/// target that leaves no choice, all of them do.
#[tokio::test(flavor = "multi_thread")]
async fn random_numbers_never_reach_the_wrong_row() {
    const SEEDS: [Option<u64>; 4] = [Some(1), None, Some(2), None];
    const N_TOKENS: usize = 16;
    let pair = pair().await;
    let seeded = async |seed: u64| pair.generate(sampled(&PROMPT, N_TOKENS, Some(seed))).await.token_ids();
    let expected = [seeded(1).await, seeded(2).await];

    let no_choice = ScriptedPair::of_models(winding(), taste(2, 4.0), settings()).await;
    let only = plain::greedy(&mut *scripted_pair::loaded(winding()).model, &PROMPT, N_TOKENS);

    let mut unseeded = HashSet::new();
    for shuffle in 0..200_usize {
        let order = shuffled(shuffle);
        let requests = order.map(|index| sampled(&PROMPT, N_TOKENS, SEEDS[index]));
        let run = async |pair: &ScriptedPair, requests: &[GenerateRequest]| {
            join_all(requests.iter().map(|request| Outcome::of(&pair.client, request.clone()))).await
        };
        let (outcomes, forced) = tokio::join!(run(&pair, &requests), run(&no_choice, &requests));
        for (index, outcome) in order.into_iter().zip(outcomes) {
            let tokens = outcome.unwrap().token_ids();
            match SEEDS[index] {
                Some(seed) => assert_eq!(tokens, expected[seed as usize - 1], "shuffle {shuffle}"),
                None => assert!(unseeded.insert(tokens), "shuffle {shuffle}: an unseeded text came twice"),
            }
        }
        for outcome in forced {
            assert_eq!(outcome.unwrap().token_ids(), only, "shuffle {shuffle}");
        }
    }
}

/// One of the 24 orders of four.
fn shuffled(number: usize) -> [usize; 4] {
    let mut order = [0, 1, 2, 3];
    order.swap(0, number % 4);
    order.swap(1, 1 + number / 4 % 3);
    order.swap(2, 2 + number / 12 % 2);
    order
}

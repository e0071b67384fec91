//! What a draft finds in its prefix cache must be worth as much as what it computes. If it is not, the text stays right
//! and only acceptance falls, which nobody sees. So fifty requests share a prefix of a thousand tokens, and the last is
//! compared with the first.

use specfleet_client::v1::GenerateRequest;
use specfleet_model::{
    load::{Dtype, Operators},
    scripted::ScriptedModel,
};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::Pair,
    outcome::Outcome,
    real_models,
    scripted_pair::{N_VOCAB, ScriptedPair, settings},
};

use super::scripted::{greedy, winding};

/// Right unless the prefix says otherwise, which depends on all of it: a token that is not where it should be shows.
fn mostly_right() -> ScriptedModel {
    let right = |prefix: &[TokenId]| {
        let mix =
            |hash: u64, token: &TokenId| (hash ^ u64::from(*token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        prefix.iter().fold(17, mix)
    };
    ScriptedModel::from_fn(N_VOCAB, move |prefix| {
        let hash = right(prefix);
        let is_wrong = (hash >> 32).is_multiple_of(3);
        let mut logits = vec![-30.0; N_VOCAB];
        logits[((hash % 15 + u64::from(is_wrong)) % 15) as usize] = 30.0;
        logits
    })
    .with_weights_digest([1; 32])
}

/// Acceptance and the prompt tokens that the target reused.
fn summary(outcome: &Outcome) -> (u32, u32) {
    (outcome.speculation().accepted, outcome.speculation().proposed)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fiftieth_request_with_a_prefix_is_drafted_for_as_well_as_the_first() {
    let pair = ScriptedPair::of_models(winding(), mostly_right(), settings()).await;
    let prompt: Vec<TokenId> = (0..1000).map(|i| i * 7 % 13).collect();
    let first = pair.generate(greedy(&prompt, 100)).await;
    assert_eq!(first.started.reused_prompt_tokens, 0);
    assert!(first.speculation().accepted > 20 && first.speculation().corrected > 5, "{:?}", first.speculation());
    for _ in 2..=50 {
        let later = pair.generate(greedy(&prompt, 100)).await;
        assert_eq!(later.started.reused_prompt_tokens, 992, "whole blocks of 16");
        assert_eq!(later.token_ids(), first.token_ids());
        assert_eq!(summary(&later), summary(&first));
    }
    // And with another ending of the same prefix.
    let other = [&prompt[..990], &[1, 2, 3]].concat();
    let fresh = ScriptedPair::of_models(winding(), mostly_right(), settings()).await;
    let (reusing, computing) = (pair.generate(greedy(&other, 100)).await, fresh.generate(greedy(&other, 100)).await);
    assert_eq!(reusing.started.reused_prompt_tokens, 976);
    assert_eq!((reusing.token_ids(), summary(&reusing)), (computing.token_ids(), summary(&computing)));
}

/// Greedy drafting is deterministic, so that any difference is a fault and not noise.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_draft_is_as_good_after_a_cache_hit() {
    let _turn = real_models::turn().await;
    let draft = real_models::draft();
    let Some(target) = real_models::target(Dtype::Bf16, Operators::Fused, 8192) else { return };
    // Several chats one after the other: a prefix of about a thousand tokens.
    let prompt: Vec<TokenId> = real_models::prompts(&target, 12).concat().into_iter().take(1000).collect();
    let n_requests = if real_models::long_form() { 50 } else { 5 };
    let pair = Pair::start(target, draft, settings()).await;
    let run = async || {
        let request = GenerateRequest { ignore_eos: true, ..greedy(&prompt, 48) };
        Outcome::of(&pair.client, request).await.unwrap()
    };
    let first = run().await;
    assert_eq!(first.started.reused_prompt_tokens, 0);
    assert!(first.speculation().accepted > 0, "{:?}", first.speculation());
    for _ in 1..n_requests {
        let later = run().await;
        assert!(later.started.reused_prompt_tokens as usize + 16 >= prompt.len(), "{:?}", later.started);
        assert_eq!((later.token_ids(), summary(&later)), (first.token_ids(), summary(&first)));
    }
}

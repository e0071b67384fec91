//! A draft whose memory of the text is wrong still yields the right text, only with fewer tokens accepted. So
//! acceptance is what is looked at here: with a draft that is the target itself it must be whole, for ever, and whole
//! again in the round after any rejection.
//!
//! After a round of k draft tokens of which a passed, the target drops the keys and values of k - a of them, and the
//! draft those of k - 1 - a: it never computed any for its last one. When all pass, the draft must catch up on that
//! one. A scripted model keeps the tokens themselves in its KV memory, and reads its answers from there.

use specfleet_client::v1::{GenerateRequest, SpeculationOptions};
use specfleet_model::load::{Dtype, Operators};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    in_process::{Draft, Pair, Verifier},
    known_text::{Knack, KnownText},
    outcome::Outcome,
    plain, real_models,
    scripted_pair::{self, N_VOCAB, ScriptedPair, settings},
};

use super::scripted::{greedy, winding};

const PROMPT: [TokenId; 5] = [3, 1, 4, 1, 5];
const DRAFT_LENGTH: usize = 4;

fn with_length(request: GenerateRequest, draft_length: usize) -> GenerateRequest {
    let speculation = SpeculationOptions { max_draft_length: Some(draft_length as u32), ..Default::default() };
    GenerateRequest { speculation: Some(speculation), ..request }
}

/// `n_tokens` in rounds that are all as long as they can be.
fn assert_whole(outcome: &Outcome, n_tokens: usize, draft_length: usize) {
    let report = outcome.speculation();
    assert_eq!((report.accepted, report.corrected, report.plain_steps), (report.proposed, 0, 0), "{report:?}");
    // One token from the prompt's pass, the others in rounds.
    assert_eq!(report.rounds as usize, (n_tokens - 1).div_ceil(draft_length + 1), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_the_target_is_accepted_whole_for_500_tokens() {
    let pair = ScriptedPair::of_models(winding(), winding(), settings()).await;
    for draft_length in [1, DRAFT_LENGTH, 16] {
        // A last round without room for a draft token would be plain.
        let n_tokens = 1 + 500_usize.next_multiple_of(draft_length + 1);
        let outcome = pair.generate(with_length(greedy(&PROMPT, n_tokens), draft_length)).await;
        assert_eq!(outcome.token_ids().len(), n_tokens);
        assert_whole(&outcome, n_tokens, draft_length);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_round_after_a_rejection_at_any_position_is_whole_again() {
    const N_TOKENS: usize = 500;
    let mut target = scripted_pair::loaded(winding());
    let tokens = plain::greedy(&mut *target.model, &PROMPT, N_TOKENS);
    let known = KnownText::new(N_VOCAB);
    known.learn(&PROMPT, &tokens);
    // Wrong at `at` of one round, then a whole round.
    let knacks = (0..DRAFT_LENGTH).map(|at| (at, Knack::WrongAt { at, cycle: at + 1 + DRAFT_LENGTH + 1 }));
    let drafts: Vec<(usize, Draft)> =
        knacks.map(|(at, knack)| (at, drafts::knowing(&known, knack, &target.tokenizer))).collect();
    let channels = drafts.iter().map(|(at, draft)| (format!("wrong at {at}"), draft.channel())).collect();
    let verifier = Verifier::start(target, channels, settings().verifier);
    verifier.wait_for_drafts().await;
    for (at, draft) in &drafts {
        let speculation = Some(drafts::only(draft, DRAFT_LENGTH as u32));
        let request = GenerateRequest { speculation, ..greedy(&PROMPT, N_TOKENS) };
        let outcome = Outcome::of(&verifier.client, request).await.unwrap();
        assert_eq!(outcome.token_ids(), tokens);
        let lengths = outcome.round_lengths();
        // The last rounds are cut by the end of the request.
        let (pairs, _) = lengths[..lengths.len() - 2].as_chunks::<2>();
        assert!(pairs.len() > 40 && pairs.iter().all(|pair| *pair == [at + 1, DRAFT_LENGTH + 1]), "{lengths:?}");
    }
    verifier.wait_until_idle().await;
}

/// The same with real weights, where the draft-service computes each token in a pass of its own and the verifier five
/// rows in one: they agree only if they get the same bits, or no two logits ever nearly tie.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_draft_that_is_the_target_is_accepted_whole() {
    let _turn = real_models::turn().await;
    let loaded = || real_models::target(Dtype::Bf16, Operators::Fused, 4096);
    let (Some(target), Some(draft)) = (loaded(), loaded()) else { return };
    let n_tokens = if real_models::long_form() { 501 } else { 61 };
    let prompt = real_models::prompts(&target, 1).remove(0);
    let pair = Pair::start(target, draft, settings()).await;
    let request = GenerateRequest { ignore_eos: true, ..with_length(greedy(&prompt, n_tokens), DRAFT_LENGTH) };
    let outcome = Outcome::of(&pair.client, request).await.unwrap();
    assert_whole(&outcome, n_tokens, DRAFT_LENGTH);
}

//! Tables instead of weights: every way in which a round can go, at every draft length.

use specfleet_client::v1::{GenerateRequest, SamplingParams, TokenOrigin};
use specfleet_model::scripted::ScriptedModel;
use specfleet_speculation::TokenId;
use specfleet_tests::{
    drafts,
    in_process::Verifier,
    known_text::{Knack, KnownText},
    outcome::Outcome,
    plain,
    recording::Notebook,
    scripted_pair::{self, N_VOCAB, ScriptedPair, settings},
};

use super::Text;

const PROMPT: [TokenId; 3] = [1, 2, 3];
const N_TOKENS: usize = 60;

/// A target whose choice depends on the whole prefix, which has no short cycle and never ends.
pub(crate) fn winding() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |prefix| {
        let mut logits = vec![-30.0; N_VOCAB];
        let mix =
            |hash: u64, token: &TokenId| (hash ^ u64::from(*token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        logits[(prefix.iter().fold(17, mix) % 15) as usize] = 30.0;
        logits
    })
}

/// A greedy request.
pub(super) fn greedy(prompt: &[TokenId], n_tokens: usize) -> GenerateRequest {
    GenerateRequest {
        sampling: Some(SamplingParams { temperature: Some(0.0), ..SamplingParams::default() }),
        ..scripted_pair::request(prompt, n_tokens as u32)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_draft_of_any_length_changes_greedy_text_or_its_logits() {
    let notebook = Notebook::new();
    let mut target = notebook.observe(scripted_pair::loaded(winding()));
    let text = Text { prompt: PROMPT.to_vec(), tokens: plain::greedy(&mut *target.model, &PROMPT, N_TOKENS) };
    let known = KnownText::new(N_VOCAB);
    known.learn(&PROMPT, &text.tokens);
    let mut knacks = vec![Knack::Perfect, Knack::AlwaysWrong, Knack::Erratic];
    knacks.extend((0..8).map(|at| Knack::WrongAt { at, cycle: at + 1 }));
    let drafts: Vec<_> = knacks.iter().map(|&knack| drafts::knowing(&known, knack, &target.tokenizer)).collect();
    let channels = drafts.iter().map(|draft| ("draft".to_owned(), draft.channel())).collect();
    let verifier = Verifier::start(target, channels, settings().verifier);
    verifier.wait_for_drafts().await;

    for (knack, draft) in knacks.iter().zip(&drafts) {
        for draft_length in 1..=8 {
            let who = format!("{knack:?}, length {draft_length}");
            notebook.turn_to(&who);
            let speculation = drafts::only(draft, draft_length);
            let request = GenerateRequest { speculation: Some(speculation), ..greedy(&PROMPT, N_TOKENS) };
            let outcome = Outcome::of(&verifier.client, request).await.unwrap();
            assert_eq!(outcome.token_ids().len(), N_TOKENS);
            text.assert_goes_on(0, &outcome.token_ids(), &notebook, &who);
            assert_rounds(*knack, draft_length as usize, &outcome);
        }
    }
    text.assert_equal_bits(N_TOKENS, 1 + 8 * knacks.len(), &notebook);
}

/// The draft was right and wrong where it should: the rounds have the lengths that follow.
fn assert_rounds(knack: Knack, draft_length: usize, outcome: &Outcome) {
    let lengths = outcome.round_lengths();
    // The last round may be cut by the end of the request.
    let whole = &lengths[..lengths.len() - 1];
    let expected = match knack {
        Knack::Perfect => draft_length + 1,
        Knack::AlwaysWrong => 1,
        Knack::WrongAt { at, .. } if at < draft_length => at + 1,
        // Rounds are shorter than the cycle: its wrong place falls anywhere in them, or on the bonus token only.
        Knack::WrongAt { .. } => return assert!(outcome.count(TokenOrigin::Accepted) > 0),
        Knack::Erratic => {
            return assert!(outcome.count(TokenOrigin::Accepted) > 0 && outcome.count(TokenOrigin::Corrected) > 0);
        }
    };
    assert!(whole.iter().all(|&length| length == expected), "{knack:?}, length {draft_length}: {lengths:?}");
}

/// Both of the two likeliest tokens are equally likely, everywhere: the lowest id is chosen, by plain steps, as a
/// correction and as a bonus, and a draft that prefers the other one is corrected.
#[tokio::test(flavor = "multi_thread")]
async fn an_exact_tie_is_broken_by_the_lowest_id_on_every_path() {
    for (draft, origin) in [("* -> 0:5 1:5 2:1 3:1", TokenOrigin::Bonus), ("* -> 1:1", TokenOrigin::Corrected)] {
        let pair = ScriptedPair::start("* -> 0:5 1:5 2:1 3:1", draft, settings()).await;
        let speculative = pair.generate(greedy(&PROMPT, N_TOKENS)).await;
        let plain = GenerateRequest { speculation: Some(drafts::off()), ..greedy(&PROMPT, N_TOKENS) };
        let plain = pair.generate(plain).await;
        assert_eq!((speculative.token_ids(), plain.token_ids()), (vec![0; N_TOKENS], vec![0; N_TOKENS]));
        assert!(speculative.count(origin) > 3, "{:?}", speculative.speculation());
    }
}

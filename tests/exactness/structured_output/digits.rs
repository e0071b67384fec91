//! Four digits, and a draft that proposes something else anywhere among them.

use specfleet_client::v1::{
    AcceptanceRule, FinishReason, GenerateRequest, SamplingParams, SpeculationOptions, TokenOrigin,
};
use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::{Draft, Verifier},
    lying_draft::{Lie, LyingDraft},
    outcome::Outcome,
    scripted_pair::{request, settings},
};

use super::{loaded, of_form, regex};

const X: TokenId = 10;
const END: TokenId = 12;
const N_VOCAB: usize = 13;

/// Ids 0 to 9 spell digits.
fn tokenizer() -> Tokenizer {
    let mut tokens: Vec<Vec<u8>> = (b'0'..=b'9').map(|digit| vec![digit]).collect();
    tokens.extend([b"x".to_vec(), b"y".to_vec(), b"<end>".to_vec()]);
    Tokenizer::from_bytes(tokens, &[END], &[END])
}

fn table(text: &str) -> ScriptedModel {
    ScriptedModel::from_table(text, N_VOCAB).unwrap()
}

/// A verifier with a draft that knows nothing of forms.
async fn verifier(target: &str, draft: &str) -> Verifier {
    let tokenizer = tokenizer();
    let channel = LyingDraft::new(draft, &tokenizer, Lie::None).serve();
    let target = loaded(table(target), &tokenizer);
    let verifier = Verifier::start(target, vec![("unaware".to_owned(), channel)], settings().verifier);
    verifier.wait_for_drafts().await;
    verifier
}

fn four_digits(sampling: SamplingParams, prompt: &[TokenId]) -> GenerateRequest {
    let speculation = SpeculationOptions { max_draft_length: Some(4), ..Default::default() };
    let request = GenerateRequest { sampling: Some(sampling), speculation: Some(speculation), ..request(prompt, 40) };
    of_form(regex("[0-9]{4}"), request)
}

fn greedy() -> SamplingParams {
    SamplingParams { temperature: Some(0.0), ..SamplingParams::default() }
}

#[track_caller]
fn assert_four_digits(outcome: &Outcome) {
    let tokens = outcome.token_ids();
    assert!(tokens.len() == 5 && tokens[..4].iter().all(|token| *token < X) && tokens[4] == END, "{tokens:?}");
    assert_eq!(outcome.finished.reason(), FinishReason::Stop);
}

/// The target would rather write x everywhere, and so would the draft after "12".
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_token_outside_the_grammar_is_rejected_into_the_masked_target() {
    // After the prompt's own pass, which gives the first digit, the draft proposes 1, 2, x, 3.
    let target = "* -> 10:9 7:2 1:1\n 0 -> 1:9 10:1\n 1 -> 2:9 10:1\n 11 -> 10:9 0:1";
    let draft = "* -> 1:1\n 1 -> 2:1\n 2 -> 10:1\n 10 -> 3:1";
    let verifier = verifier(target, draft).await;
    // Nothing is drafted for a form until it is known what its masks take.
    for index in 0..8 {
        assert_four_digits(&Outcome::of(&verifier.client, four_digits(greedy(), &[index])).await.unwrap());
    }
    let mut n_tries = 0;
    let outcome = loop {
        let outcome = Outcome::of(&verifier.client, four_digits(greedy(), &[11])).await.unwrap();
        assert_eq!(outcome.token_ids(), [0, 1, 2, 7, END]);
        assert_four_digits(&outcome);
        // Where masks take long, as on a busy machine, proposals are short and end before the x.
        if outcome.rounds[1..].iter().all(|round| round.n_proposed > 2) {
            break outcome;
        }
        n_tries += 1;
        assert!(n_tries < 100, "{:?}", outcome.rounds);
    };
    assert_eq!(outcome.count(TokenOrigin::Accepted), 2, "{:?}", outcome.rounds);
    assert_eq!(outcome.count(TokenOrigin::Corrected), 2, "the digit in place of x, and the end: {:?}", outcome.rounds);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_drafts_that_are_wrong_at_a_random_place_leave_four_digits() {
    let any_digit = (0..10).map(|digit| format!("{digit}:1 ")).collect::<String>();
    // One token in three is an x.
    let verifier = verifier(&format!("* -> {any_digit} 10:20 12:3"), &format!("* -> {any_digit} 10:5")).await;
    let (mut n_corrected, mut n_accepted) = (0, 0);
    for index in 0..1000 {
        let rule = if index % 2 == 0 { AcceptanceRule::Standard } else { AcceptanceRule::DraftInvariant };
        let sampling = if index % 10 == 9 { greedy() } else { SamplingParams::default() };
        let mut request = four_digits(sampling, &[index % 12]);
        request.seed = (index % 3 > 0).then_some(index.into());
        request.speculation.as_mut().unwrap().rule = rule.into();
        let outcome = Outcome::of(&verifier.client, request).await.unwrap();
        assert_four_digits(&outcome);
        n_corrected += outcome.count(TokenOrigin::Corrected);
        n_accepted += outcome.count(TokenOrigin::Accepted);
    }
    assert!(n_corrected > 500 && n_accepted > 200, "{n_accepted} accepted, {n_corrected} corrected");
    verifier.wait_until_idle().await;
}

/// A draft may know no token that is allowed, or some. It proposes as far as it can, and that is no error.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_without_the_allowed_ids_ends_its_proposals() {
    let tokenizer = tokenizer();
    for (known, is_of_use) in [(vec![10, 11], false), (vec![2, 3, 10, 12], true), ((0..13).collect(), true)] {
        let model = table("* -> 0:1 1:1 2:1 3:1 10:9 12:1").with_draft_vocab(known);
        let draft = Draft::start(loaded(model, &tokenizer), settings().draft);
        let target = loaded(table("* -> 2:3 3:3 10:9 12:1"), &tokenizer);
        let verifier = Verifier::start(target, vec![("reduced".to_owned(), draft.channel())], settings().verifier);
        verifier.wait_for_drafts().await;
        let mut n_tested = 0;
        for seed in 0..40 {
            let request = GenerateRequest { seed: Some(seed), ..four_digits(SamplingParams::default(), &[1]) };
            let outcome = Outcome::of(&verifier.client, request).await.unwrap();
            assert_four_digits(&outcome);
            n_tested += outcome.n_tested();
        }
        assert_eq!(n_tested > 0, is_of_use, "{n_tested} draft tokens tested");
    }
}

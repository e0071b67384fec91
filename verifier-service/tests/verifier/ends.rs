//! Where a text ends: end tokens, stop tokens, `max_tokens`, the context, `min_tokens`. With speculation a round can run
//! past each of them.

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::v1::{self, FinishReason, GenerateRequest, TokenOrigin};
use specfleet_speculation::TokenId;

use crate::support::{
    Answer, END, FakeDraft, N_VOCAB, Verifier, drafted, greedy_target, options, plain, request, winding,
};

const A: TokenId = 0;
const B: TokenId = 1;
const C: TokenId = 2;
const D: TokenId = 3;
const START: TokenId = 9;

/// START A B END C D C D ...
fn with_an_end(prefix: &[TokenId]) -> TokenId {
    match prefix.last() {
        Some(&START) => A,
        Some(&A) => B,
        Some(&B) => END,
        Some(&END) | Some(&D) => C,
        _ => D,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_follows_an_end_token_wherever_it_falls_in_a_round() {
    let draft = FakeDraft::following(with_an_end);
    let verifier = Verifier::with_draft(greedy_target(with_an_end), &draft, options()).await;
    for draft_length in 0..=5 {
        let outcome = verifier.generate(drafted(&[START], 50, draft_length)).await;
        outcome.assert_tokens(&[A, B, END]);
        assert_eq!(outcome.reason(), FinishReason::Stop);
        assert_eq!(outcome.text(), "ab", "an end token has no text");
        let report = outcome.speculation();
        assert!(report.accepted <= 2, "tokens behind the end do not count: {report:?}");
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignoring_the_end_goes_on_with_drafts() {
    let draft = FakeDraft::following(with_an_end);
    let verifier = Verifier::with_draft(greedy_target(with_an_end), &draft, options()).await;
    for draft_length in 0..=5 {
        let wire = GenerateRequest { ignore_eos: true, ..drafted(&[START], 20, draft_length) };
        let outcome = verifier.generate(wire).await;
        outcome.assert_tokens(&plain(with_an_end, &[START], 20));
        assert_eq!(outcome.reason(), FinishReason::Length);
        assert_eq!(outcome.speculation().accepted > 10, draft_length > 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_token_is_the_last_token_and_has_no_text() {
    let draft = FakeDraft::following(with_an_end);
    let verifier = Verifier::with_draft(greedy_target(with_an_end), &draft, options()).await;
    for draft_length in 0..=5 {
        let outcome =
            verifier.generate(GenerateRequest { stop_token_ids: vec![B], ..drafted(&[START], 20, draft_length) }).await;
        outcome.assert_tokens(&[A, B]);
        assert_eq!((outcome.reason(), outcome.text().as_str()), (FinishReason::Stop, "a"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn max_tokens_is_exact() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    for max_tokens in 1..=12 {
        let outcome = verifier.generate(drafted(&[START], max_tokens, 4)).await;
        outcome.assert_tokens(&plain(winding, &[START], max_tokens as usize));
        assert_eq!(outcome.reason(), FinishReason::Length);
    }
    let asked = draft.advances();
    for advance in asked.iter().filter(|advance| advance.committed.len() > 1) {
        assert!(advance.draft_length <= 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_fills_the_context_exactly_and_no_further() {
    let draft = FakeDraft::following(winding);
    let target = greedy_target(winding).with_context_length(16);
    let verifier = Verifier::with_draft(target, &draft, options()).await;
    let other = verifier.generate(drafted(&[5], 10, 5));
    let others = async {
        for n_prompt in 10..=15 {
            let prompt = vec![START; n_prompt];
            let wire = GenerateRequest { max_tokens: None, ..drafted(&prompt, 0, 5) };
            let outcome = verifier.generate(wire).await;
            outcome.assert_tokens(&plain(winding, &prompt, 16 - n_prompt));
            assert_eq!(outcome.reason(), FinishReason::Length);
        }
        for n_prompt in [16, 17] {
            let status = verifier.generate(request(&vec![START; n_prompt], 1)).await.status.unwrap();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(status.message().contains("16"), "{status:?}");
        }
    };
    let (other, ()) = tokio::join!(other, others);
    other.assert_tokens(&plain(winding, &[5], 10));
    for advance in draft.advances() {
        assert!(advance.committed.len() + advance.draft_length < 16, "the round commits one token more");
    }
    verifier.assert_idle().await;
}

/// A draft that knows a shorter context than the target is used as far as it goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_with_a_short_context_is_used_as_far_as_it_goes() {
    let draft = FakeDraft::following(winding).with_identity(|identity| identity.context_length = 20);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(drafted(&[START], 60, 4)).await;
    outcome.assert_tokens(&plain(winding, &[START], 60));
    let longest = draft.advances().iter().map(|advance| advance.committed.len() + advance.draft_length).max();
    assert_eq!(longest, Some(20));
    assert!(outcome.speculation().plain_reasons["nothing_proposed"] > 30);
}

/// The end has nine tenths of the probability, A the rest; greedy.
fn eager_to_end() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, |_| {
        let mut logits = vec![f32::NEG_INFINITY; N_VOCAB];
        logits[END as usize] = 0.9_f32.ln();
        logits[A as usize] = 0.1_f32.ln();
        logits
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn min_tokens_holds_back_the_end_for_exactly_so_many() {
    for proposed in [A, END] {
        let draft = FakeDraft::new(move |advance| Answer::Tokens(vec![proposed; advance.draft_length]));
        let verifier = Verifier::with_draft(eager_to_end(), &draft, options()).await;
        for min_tokens in [0, 1, 2, 4, 5, 6] {
            let mut wire = drafted(&[START], 30, 4);
            wire.sampling.as_mut().unwrap().min_tokens = min_tokens;
            let outcome = verifier.generate(wire).await;
            let mut expected = vec![A; min_tokens as usize];
            expected.push(END);
            outcome.assert_tokens(&expected);
            assert_eq!(outcome.reason(), FinishReason::Stop);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_token_says_where_it_came_from() {
    // Right, wrong, right: accepted, corrected. Then all right: accepted and a bonus.
    let draft = FakeDraft::new(|advance| {
        let mut tokens = plain(winding, &advance.committed, advance.draft_length);
        if advance.number == 0 {
            tokens[1] = (tokens[1] + 1) % 15;
        }
        Answer::Tokens(tokens)
    });
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(drafted(&[START], 7, 3)).await;
    outcome.assert_tokens(&plain(winding, &[START], 7));
    let origins: Vec<Vec<TokenOrigin>> =
        (outcome.rounds.iter()).map(|round| round.tokens.iter().map(v1::CommittedToken::origin).collect()).collect();
    use TokenOrigin::{Accepted, Bonus, Corrected, Plain};
    assert_eq!(origins, [vec![Plain], vec![Accepted, Corrected], vec![Accepted, Accepted, Accepted, Bonus]]);
    assert_eq!(outcome.speculation().tested_per_position, [2, 2, 1]);
    assert_eq!(outcome.speculation().accepted_per_position, [2, 1, 1]);
    assert_eq!(verifier.metric("specfleet_verifier_positions_tested_total", "position=\"1\""), 2.0);
    assert_eq!(verifier.metric("specfleet_verifier_draft_tokens_accepted_total", ""), 4.0);
    assert_eq!(verifier.metric("specfleet_verifier_draft_tokens_proposed_total", "version=\"aaaa"), 6.0);
}

//! Greedy text is the target's, whatever the draft proposes, and the draft's prefix is always the committed one.

use specfleet_speculation::TokenId;

use crate::support::{Advance, Answer, FakeDraft, Verifier, drafted, greedy_target, options, plain, request, winding};

const PROMPT: [TokenId; 3] = [1, 2, 3];

fn other_than(token: TokenId) -> TokenId {
    (token + 1) % 15
}

/// The target's continuation, except at `wrong_at` in every proposal.
fn wrong_at(wrong_at: usize) -> FakeDraft {
    FakeDraft::new(move |advance| {
        let mut tokens = plain(winding, &advance.committed, advance.draft_length);
        if let Some(token) = tokens.get_mut(wrong_at) {
            *token = other_than(*token);
        }
        Answer::Tokens(tokens)
    })
}

async fn check_all_lengths(draft: FakeDraft) {
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let expected = plain(winding, &PROMPT, 40);
    for draft_length in 1..=8 {
        let outcome = verifier.generate(drafted(&PROMPT, 40, draft_length)).await;
        outcome.assert_tokens(&expected);
        assert!(outcome.speculation().proposed > 0, "{:?}", outcome.speculation());
    }
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_perfect_draft_changes_nothing() {
    check_all_lengths(FakeDraft::following(winding)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_always_wrong_changes_nothing() {
    check_all_lengths(FakeDraft::following(|prefix| other_than(winding(prefix)))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_is_wrong_at_one_position_changes_nothing() {
    for position in 0..5 {
        check_all_lengths(wrong_at(position)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_draft_of_random_length_changes_nothing() {
    let script = |advance: &Advance| {
        let noise = winding(&advance.committed[advance.committed.len() / 2..]) as usize;
        let mut tokens = plain(winding, &advance.committed, advance.draft_length);
        tokens.truncate(noise % (advance.draft_length + 1));
        if noise.is_multiple_of(3)
            && let Some(last) = tokens.last_mut()
        {
            *last = other_than(*last);
        }
        Answer::Tokens(tokens)
    };
    check_all_lengths(FakeDraft::new(script)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_equal_to_the_target_is_accepted_whole_for_ever() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(drafted(&PROMPT, 500, 4)).await;
    outcome.assert_tokens(&plain(winding, &PROMPT, 500));
    let report = outcome.speculation();
    assert_eq!((report.accepted, report.corrected), (report.proposed, 0));
    assert_eq!(report.plain_steps, 0);
    // One token from the prompt, then rounds of five.
    assert_eq!(report.rounds, 499_u32.div_ceil(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_rejection_at_any_position_the_next_round_is_whole_again() {
    for position in 0..4 {
        let draft = FakeDraft::new(move |advance| {
            let mut tokens = plain(winding, &advance.committed, advance.draft_length);
            if advance.number.is_multiple_of(2)
                && let Some(token) = tokens.get_mut(position)
            {
                *token = other_than(*token);
            }
            Answer::Tokens(tokens)
        });
        let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
        let outcome = verifier.generate(drafted(&PROMPT, 100, 4)).await;
        outcome.assert_tokens(&plain(winding, &PROMPT, 100));
        let lengths: Vec<usize> = outcome.rounds[1..].iter().map(|round| round.tokens.len()).collect();
        for pair in lengths[..lengths.len() - 2].chunks_exact(2) {
            assert_eq!(pair, [position + 1, 5]);
        }
    }
}

/// The draft is told of the correction before it is asked again: the prefix it sees grows by what was committed and ends
/// in the corrected token.
#[tokio::test(flavor = "multi_thread")]
async fn the_draft_goes_on_from_the_correction() {
    let draft = wrong_at(1);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(drafted(&PROMPT, 40, 4)).await;
    let text = [&PROMPT[..], &outcome.tokens()].concat();
    let advances = draft.advances();
    assert!(advances.len() > 10);
    for (number, advance) in advances.iter().enumerate() {
        assert_eq!(advance.committed.len(), PROMPT.len() + 1 + 2 * number);
        assert!(text.starts_with(&advance.committed));
        assert_eq!(advance.n_prompt, PROMPT.len());
    }
    assert_eq!(draft.opens().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_with_nothing_to_propose_leaves_plain_decoding() {
    let draft = FakeDraft::new(|_| Answer::Tokens(Vec::new()));
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let outcome = verifier.generate(drafted(&PROMPT, 20, 4)).await;
    outcome.assert_tokens(&plain(winding, &PROMPT, 20));
    let report = outcome.speculation();
    // The last token leaves no room for a draft token.
    assert_eq!(report.plain_reasons["nothing_proposed"], 18);
    assert_eq!(report.plain_reasons["budget"], 1);
    assert!(report.draft_version_ids.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_needs_no_draft_call() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    verifier.generate(drafted(&PROMPT, 1, 4)).await.assert_tokens(&plain(winding, &PROMPT, 1));
    assert!(draft.opens().is_empty());
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn off_means_no_session_at_all() {
    let draft = FakeDraft::following(winding);
    let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
    let mut off = request(&PROMPT, 10);
    off.speculation = Some(specfleet_protocol::v1::SpeculationOptions { off: true, ..Default::default() });
    for request in [off, drafted(&PROMPT, 10, 0)] {
        let outcome = verifier.generate(request).await;
        outcome.assert_tokens(&plain(winding, &PROMPT, 10));
        assert_eq!(outcome.speculation().plain_reasons["off"], 9);
    }
    assert!(draft.opens().is_empty());
}

/// Sixteen requests, each of which may only ever see its own token, with proposals of unequal length, joining at
/// different times.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_ever_reaches_another_request() {
    let draft = FakeDraft::new(|advance| {
        let (own, n_committed) = (advance.committed[0], advance.committed.len());
        let mut tokens = vec![own; (n_committed * 7 + own as usize) % (advance.draft_length + 1)];
        if n_committed.is_multiple_of(3)
            && let Some(last) = tokens.last_mut()
        {
            *last = other_than(own);
        }
        Answer::Tokens(tokens)
    });
    let verifier = Verifier::with_draft(greedy_target(|prefix| prefix[0]), &draft, options()).await;
    let requests = (0..45_u32).map(|index| {
        let (own, n_tokens) = (index % 15, 20 + 7 * (index % 5));
        let verifier = &verifier;
        async move {
            let outcome = verifier.generate(drafted(&[own], n_tokens, 5)).await;
            outcome.assert_tokens(&vec![own; n_tokens as usize]);
        }
    });
    futures::future::join_all(requests).await;
    verifier.assert_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn far_more_rows_than_a_pass_holds_are_served_in_turns() {
    for draft_length in [1, 4, 8, 12, 16, 17] {
        let draft = FakeDraft::following(winding);
        let verifier = Verifier::with_draft(greedy_target(winding), &draft, options()).await;
        let requests = (0..256_u32).map(|index| {
            let (verifier, prompt) = (&verifier, [index % 15, index / 15 % 15]);
            async move {
                let outcome = verifier.generate(drafted(&prompt, 30, draft_length)).await;
                outcome.assert_tokens(&plain(winding, &prompt, 30));
            }
        });
        futures::future::join_all(requests).await;
        verifier.assert_idle().await;
    }
}

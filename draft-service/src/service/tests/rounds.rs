//! What the draft remembers from round to round must be what the verifier committed.

use std::time::Duration;

use specfleet_protocol::status::Reason;
use tonic::Code;

use super::harness::*;

const PROMPT: [u32; 5] = [3, 1, 4, 1, 5];

/// The draft is the target and everything is greedy, so that every token must pass. After `n_accepted` of 4 the verifier
/// commits a token of its own; from then on everything must pass again.
#[tokio::test]
async fn after_any_number_of_accepted_tokens_the_next_proposal_is_right() {
    let draft = Draft::of_model(mixed_model(), options());
    for n_accepted in 0..=4 {
        let mut prefix = PROMPT.to_vec();
        let mut session = draft.open_with(greedy(draft.open_message(&prefix, 1))).await.unwrap();
        let mut committed = Vec::new();
        for round in 0..40 {
            let proposal = session.advance(&committed, 4).await.unwrap();
            let right = greedy_after(&prefix, 4);
            assert_eq!(ids(&proposal), right, "round {round} with {n_accepted} accepted");
            committed = right[..n_accepted].to_vec();
            let own = match right.get(n_accepted) {
                // A correction is another token than the draft's, a bonus token any.
                Some(rejected) => (rejected + 1) % N_VOCAB as u32,
                None => round % N_VOCAB as u32,
            };
            committed.push(own);
            prefix.extend(&committed);
        }
    }
}

/// A late proposal is not used, and the verifier goes on by itself: several tokens take the place of what was drafted.
#[tokio::test]
async fn tokens_committed_without_the_draft_replace_what_it_drafted() {
    let draft = Draft::of_model(mixed_model(), options());
    for n_agreed in 0..3 {
        for n_own in 0..7 {
            let mut session = draft.open_with(greedy(draft.open_message(&PROMPT, 1))).await.unwrap();
            let drafted = ids(&session.advance(&[], 4).await.unwrap());
            let own = drafted.iter().chain(&PROMPT).cycle().skip(n_agreed).map(|token| (token + 1) % N_VOCAB as u32);
            let committed: Vec<u32> = drafted[..n_agreed].iter().copied().chain(own.take(n_own)).collect();
            let prefix = [&PROMPT[..], &committed].concat();
            let proposal = session.advance(&committed, 4).await.unwrap();
            assert_eq!(ids(&proposal), greedy_after(&prefix, 4), "{n_agreed} of the draft's, then {n_own} others");
        }
    }
}

#[tokio::test]
async fn five_hundred_tokens_of_a_draft_that_equals_the_target_all_pass() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut prefix = PROMPT.to_vec();
    let mut session = draft.open_with(greedy(draft.open_message(&prefix, 1))).await.unwrap();
    let mut committed = Vec::new();
    while prefix.len() < 500 {
        let proposal = session.advance(&committed, 4).await.unwrap();
        committed = greedy_after(&prefix, 5);
        assert_eq!(ids(&proposal), committed[..4], "after {} tokens", prefix.len());
        prefix.extend(&committed);
    }
}

/// With `k` drafted, `k - 1` were ingested. With `a < k` accepted the next round begins at the corrected token; with all
/// accepted it begins with the last draft token, which was never ingested, and the bonus token.
#[tokio::test]
async fn a_round_computes_what_is_new_and_nothing_twice() {
    let (model, record) = Recorded::new(mixed_model());
    let draft = Draft::of_model(model, options());
    for n_accepted in 0..=4 {
        let mut session = draft.open_with(greedy(draft.open_message(&PROMPT, 1))).await.unwrap();
        let drafted = ids(&session.advance(&[], 4).await.unwrap());
        let mut committed = drafted[..n_accepted].to_vec();
        committed.push(drafted.get(n_accepted).map_or(0, |rejected| (rejected + 1) % N_VOCAB as u32));
        record.lock().unwrap().clear();
        session.advance(&committed, 4).await.unwrap();

        let kept = PROMPT.len() + n_accepted.min(3);
        let base = PROMPT.len() + n_accepted + 1;
        let first = vec![(kept, base - kept)];
        let others = (base..base + 3).map(|position| vec![(position, 1)]);
        let expected: Vec<_> = std::iter::once(first).chain(others).collect();
        assert_eq!(*record.lock().unwrap(), expected, "{n_accepted} accepted");
    }
}

#[tokio::test]
async fn asking_again_without_new_tokens_gives_the_same_proposal() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut session = draft.open(&PROMPT, 1).await;
    let first = session.advance(&[], 4).await.unwrap();
    let again = session.advance(&[], 4).await.unwrap();
    assert_eq!(first.tokens, again.tokens);
}

#[tokio::test]
async fn a_prefix_is_ingested_before_anybody_asks_and_in_pieces() {
    let (model, record) = Recorded::new(mixed_model());
    let draft = Draft::of_model(model, options());
    let prompt: Vec<u32> = (0..200).map(|index| index % 7).collect();
    let mut session = draft.open_with(greedy(draft.open_message(&prompt, 1))).await.unwrap();
    draft.metric_reaches("specfleet_draft_step_sessions_total", 4.0).await;
    // All but the last token, whose logits nobody has asked for.
    assert_eq!(*record.lock().unwrap(), [[(0, 64)], [(64, 64)], [(128, 64)], [(192, 7)]]);
    let proposal = session.advance(&[], 2).await.unwrap();
    assert_eq!(ids(&proposal), greedy_after(&prompt, 2));
    assert_eq!(record.lock().unwrap()[4..], [[(199, 1)], [(200, 1)]]);
}

#[tokio::test]
async fn a_long_prefix_does_not_hold_up_other_sessions() {
    let (model, record) = Recorded::new(mixed_model().with_delay(Duration::from_millis(5)));
    let draft = Draft::of_model(model, options());
    let mut short = draft.open(&PROMPT, 1).await;
    let prompt = vec![2; 2000];
    let mut long = draft.open(&prompt, 2).await;
    short.advance(&[], 8).await.unwrap();
    long.advance(&[], 1).await.unwrap();
    let record = record.lock().unwrap();
    let shared = record.iter().filter(|pass| pass.len() == 2 && pass[0].1 <= 16 && pass[1].1 == 64).count();
    assert!(
        shared >= 8,
        "the short session's 8 tokens should be drafted between pieces of the long prefix: {record:?}"
    );
    assert!(record.iter().flatten().all(|&(_, n_rows)| n_rows <= 64));
}

#[tokio::test]
async fn a_prefix_that_was_served_before_is_not_computed_again() {
    let (model, record) = Recorded::new(mixed_model());
    let draft = Draft::of_model(model, options());
    let prompt: Vec<u32> = (0..50).map(|index| index % 11).collect();
    let first = draft.open(&prompt, 1).await.advance(&[], 4).await.unwrap();
    draft.metric_becomes("specfleet_draft_sessions_open", 0.0).await;
    record.lock().unwrap().clear();
    let second = draft.open(&prompt, 1).await.advance(&[], 4).await.unwrap();
    assert_eq!(first.tokens, second.tokens);
    let begins_at = record.lock().unwrap()[0][0].0;
    assert_eq!(begins_at, 48, "three whole blocks of 16 should be reused");
}

#[tokio::test]
async fn a_proposal_ends_where_the_context_ends() {
    let draft = Draft::of_model(mixed_model().with_context_length(16), options());
    for (n_prompt, n_drafted) in [(10, 5), (12, 4), (15, 1), (16, 0)] {
        let mut session = draft.open(&vec![1; n_prompt], 1).await;
        let proposal = session.advance(&[], 5).await.unwrap();
        assert_eq!(proposal.tokens.len(), n_drafted, "after {n_prompt} of 16");
    }
    let refused = draft.open_with(draft.open_message(&[1; 17], 1)).await.err().unwrap();
    assert_eq!((refused.code(), Reason::of(&refused)), (Code::InvalidArgument, Some(Reason::ContextLength)));

    // A target with a longer context goes on; the draft only has nothing more to say.
    let mut session = draft.open(&[1; 15], 1).await;
    assert!(session.advance(&[2, 3, 4], 5).await.unwrap().tokens.is_empty());
    assert!(session.advance(&[5; 40], 5).await.unwrap().tokens.is_empty());
}

#[tokio::test]
async fn a_longer_proposal_than_allowed_comes_shorter() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut session = draft.open(&PROMPT, 1).await;
    assert_eq!(session.advance(&[], 1000).await.unwrap().tokens.len(), 8);
}

#[tokio::test]
async fn a_spent_time_budget_gives_an_empty_proposal_and_the_session_goes_on() {
    let (model, record) = Recorded::new(mixed_model().with_delay(Duration::from_millis(5)));
    let draft = Draft::of_model(model, options());
    let mut session = draft.open_with(greedy(draft.open_message(&PROMPT, 1))).await.unwrap();
    draft.metric_reaches("specfleet_draft_step_sessions_total", 1.0).await;
    let mut late = session.advance_message(&[], 4);
    late.time_budget_micros = 1;
    assert!(session.advance_with(late).await.unwrap().tokens.is_empty());
    assert_eq!(record.lock().unwrap().len(), 1, "late work should be dropped before it is computed");
    assert_eq!(draft.metric("specfleet_draft_out_of_time_total"), 1.0);

    let mut in_time = session.advance_message(&[7], 4);
    in_time.time_budget_micros = 60_000_000;
    let proposal = session.advance_with(in_time).await.unwrap();
    let prefix = [&PROMPT[..], &[7]].concat();
    assert_eq!(ids(&proposal), greedy_after(&prefix, 4));
}

#[tokio::test]
async fn a_proposal_ends_before_the_step_that_would_be_too_late() {
    let draft = Draft::of_model(mixed_model().with_delay(Duration::from_millis(40)), options());
    let mut session = draft.open_with(greedy(draft.open_message(&PROMPT, 1))).await.unwrap();
    let mut advance = session.advance_message(&[], 8);
    // At most four steps of 40 ms.
    advance.time_budget_micros = 180_000;
    let proposal = session.advance_with(advance).await.unwrap();
    let n_drafted = proposal.tokens.len();
    assert!(n_drafted <= 4, "{n_drafted} tokens");
    assert_eq!(ids(&proposal), greedy_after(&PROMPT, n_drafted));
}

//! Where the output has a form, proposals keep to it: the model's q is masked, and what lookup found is cut.

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use specfleet_grammar::Form;
use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_protocol::{
    status::Reason,
    v1::{self, draft_token::Distribution},
};
use specfleet_service::Metrics;
use specfleet_speculation::TokenId;
use tokio::{sync::Semaphore, time::timeout};
use tonic::Status;

use super::harness::*;
use crate::service::{Options, Service};

/// How long what comes at once may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Ids 0 to 14 spell letters from `a`; 15 ends.
const END: TokenId = 15;

fn start(model: ScriptedModel, options: Options) -> Draft {
    start_with_turns(model, options).0
}

/// Also the turns to compile a grammar.
fn start_with_turns(model: ScriptedModel, options: Options) -> (Draft, Arc<Semaphore>) {
    let letters = (b'a'..).take(N_VOCAB - 1).map(|letter| vec![letter]);
    let tokenizer = Tokenizer::from_bytes(letters.chain([b"<end>".to_vec()]).collect(), &[END], &[END]);
    let metrics = Metrics::local().unwrap();
    let service = Service::from_model(Box::new(model), &tokenizer, "scripted", options, &metrics.meter()).unwrap();
    let turns = service.shared.compiling.clone();
    (Draft::of_service(service, metrics), turns)
}

/// Opens a session whose output has the form, `n_generated` tokens of the prefix being output.
async fn open(draft: &Draft, form: Form, prefix: &[TokenId], n_generated: usize) -> Session {
    try_open(draft, form, prefix, n_generated).await.unwrap()
}

async fn try_open(draft: &Draft, form: Form, prefix: &[TokenId], n_generated: usize) -> Result<Session, Status> {
    let mut open = draft.open_message(prefix, 1);
    open.prompt_length -= n_generated as u32;
    open.settings.as_mut().unwrap().grammar = Some((&form).into());
    draft.open_with(open).await
}

fn regex(source: &str) -> Form {
    Form::Regex(source.into())
}

/// The ids that a token could have been.
fn support(token: &v1::DraftToken) -> Vec<TokenId> {
    match token.distribution.as_ref().unwrap() {
        Distribution::Point(_) => vec![token.token_id],
        Distribution::Dense(_) => panic!("not asked for"),
        Distribution::Sparse(sparse) => {
            let sum = |id: &mut TokenId, delta: &TokenId| {
                *id += delta;
                Some(*id)
            };
            sparse.id_deltas.iter().scan(0, sum).collect()
        }
    }
}

#[tokio::test]
async fn q_is_masked_at_every_position_and_the_proposal_ends_with_the_form() {
    let draft = start(mixed_model(), options());
    let mut session = open(&draft, regex("[ab][c-e]{2}f?"), &[9], 0).await;
    let proposal = session.advance(&[], 8).await.unwrap();
    let supports: Vec<_> = proposal.tokens.iter().map(support).collect();
    assert_eq!(supports[..4], [vec![0, 1], vec![2, 3, 4], vec![2, 3, 4], vec![5, END]]);
    assert!(proposal.tokens.len() <= 5 && ids(&proposal).contains(&END), "{:?}", ids(&proposal));
}

#[tokio::test]
async fn the_state_follows_what_was_committed_and_not_what_was_drafted() {
    let draft = start(mixed_model(), options());
    let mut session = open(&draft, regex("([ab][cd]){20}"), &[9], 0).await;
    let mut is_first = true;
    for round in 0..10 {
        let proposal = session.advance(&[], 5).await.unwrap();
        for token in &proposal.tokens {
            let expected = if is_first { [0, 1] } else { [2, 3] };
            assert!(support(token).iter().all(|id| expected.contains(id)), "round {round}");
            is_first = !is_first;
        }
        // Of five, as many as the round's number are accepted; the next one is corrected.
        let mut committed = ids(&proposal)[..round % 5].to_vec();
        let corrected = proposal.tokens[round % 5].token_id ^ 1;
        committed.push(corrected);
        is_first = corrected >= 2;
        let again = session.advance(&committed, 1).await.unwrap();
        let expected = if is_first { [0, 1] } else { [2, 3] };
        assert!(support(&again.tokens[0]).iter().all(|id| expected.contains(id)), "round {round}");
    }
}

/// A verifier that lost its session opens another one in the middle of the output.
#[tokio::test]
async fn a_session_may_begin_inside_the_form() {
    let draft = start(mixed_model(), options());
    let mut session = open(&draft, regex("abc[d-f]"), &[9, 0, 1, 2], 3).await;
    assert_eq!(support(&session.advance(&[], 1).await.unwrap().tokens[0]), [3, 4, 5]);
}

#[tokio::test]
async fn what_lookup_finds_is_cut_at_the_first_token_that_does_not_fit() {
    let draft = start(mixed_model(), Options { recalled_ngram: Some(3.try_into().unwrap()), ..options() });
    // After 7 8 9 came 4 5 7 8.
    let prefix = [7, 8, 9, 4, 5, 7, 8, 9];
    let mut session = open(&draft, regex("ef[a-d]{9}"), &prefix, 0).await;
    let proposal = session.advance(&[], 4).await.unwrap();
    assert_eq!(ids(&proposal), [4, 5]);
    assert!(proposal.tokens.iter().all(|token| support(token).len() == 1), "point masses");
    // Nothing fits: the model drafts.
    let mut session = open(&draft, regex("[ab]{9}"), &prefix, 0).await;
    assert_eq!(support(&session.advance(&[], 4).await.unwrap().tokens[0]), [0, 1]);
}

/// The verifier rejects what does not fit, so that a draft may do without.
#[tokio::test]
async fn a_grammar_that_cannot_be_used_is_ignored() {
    let draft = start(mixed_model(), options());
    let bad = regex("[a");
    let wide = draft.open(&[9], 1).await.advance(&[], 3).await.unwrap();
    let ignored = open(&draft, bad, &[9], 0).await.advance(&[], 3).await.unwrap();
    assert_eq!(ignored.tokens, wide.tokens);
    // One that the committed tokens have left.
    let mut left = open(&draft, regex("ab"), &[9, 5], 1).await;
    assert_eq!(left.advance(&[], 3).await.unwrap().tokens.len(), 3);
    // One for a tokenizer without an end.
    let endless = Draft::of_model(mixed_model(), options());
    let mut open = endless.open_message(&[9], 1);
    open.settings.as_mut().unwrap().grammar = Some((&regex("a")).into());
    assert_eq!(endless.open_with(open).await.unwrap().advance(&[], 3).await.unwrap().tokens, wide.tokens);
}

/// Where the form leaves one token it is as good as accepted, however little the model thinks of it.
#[tokio::test]
async fn a_proposal_does_not_end_where_the_form_leaves_no_doubt() {
    let draft = start(mixed_model(), Options { least_chance: 0.9, ..options() });
    assert_eq!(draft.open(&[9], 1).await.advance(&[], 6).await.unwrap().tokens.len(), 1);
    let mut session = open(&draft, regex("abcdef"), &[9], 0).await;
    assert_eq!(ids(&session.advance(&[], 6).await.unwrap()), [0, 1, 2, 3, 4, 5]);
}

/// The mask behind a drafted token takes as long as that token makes it take, and so might decide whether it is late.
#[tokio::test]
async fn nothing_is_drafted_behind_a_token_until_masks_are_known_to_be_cheap() {
    for (dearest_mask, expected) in [(Duration::from_secs(3600), [1, 1, 5, 5]), (Duration::ZERO, [1; 4])] {
        let draft = start(mixed_model(), Options { dearest_mask, ..options() });
        let mut session = open(&draft, regex("[ab]{40}"), &[9], 0).await;
        let mut lengths = vec![session.advance(&[], 5).await.unwrap().tokens.len()];
        for _ in 0..3 {
            lengths.push(session.advance(&[0], 5).await.unwrap().tokens.len());
        }
        // The mask before any token is remembered with the form; two have been computed before the third proposal.
        assert_eq!(lengths, expected, "{dearest_mask:?}");
        let mut same = open(&draft, regex("[ab]{40}"), &[9], 0).await;
        assert_eq!(same.advance(&[], 5).await.unwrap().tokens.len(), expected[3], "what is known is known to others");
        let mut other = open(&draft, regex("[ab]{41}"), &[9], 0).await;
        assert_eq!(other.advance(&[], 5).await.unwrap().tokens.len(), 1);
    }
}

fn one_session() -> Options {
    Options { max_sessions: NonZeroUsize::MIN, ..options() }
}

#[tokio::test]
async fn nothing_is_compiled_for_a_session_that_there_is_no_room_for() {
    let (draft, turns) = start_with_turns(mixed_model().with_delay(Duration::from_millis(100)), one_session());
    let mut busy = draft.open(&[9], 1).await;
    let drafting = tokio::spawn(async move { busy.advance(&[], 8).await });
    draft.metric_reaches("specfleet_draft_step_sessions_total", 1.0).await;
    // Whoever wants to compile now waits for ever.
    let all_turns = turns.acquire_many(turns.available_permits() as u32).await.unwrap();
    let refused = timeout(PATIENCE, try_open(&draft, regex("a"), &[9], 0)).await.expect("an answer at once");
    let refused = refused.err().unwrap();
    assert_eq!(Reason::of(&refused), Some(Reason::Overloaded), "{refused}");
    drop(all_turns);
    assert_eq!(drafting.await.unwrap().unwrap().tokens.len(), 8);
}

#[tokio::test]
async fn who_waits_to_compile_has_a_place_and_can_lose_it_or_give_it_back() {
    const OPEN: &str = "specfleet_draft_sessions_open";
    let (draft, turns) = start_with_turns(mixed_model(), one_session());
    let draft = Arc::new(draft);
    let all_turns = turns.acquire_many(turns.available_permits() as u32).await.unwrap();
    let opening = || {
        let draft = draft.clone();
        tokio::spawn(async move { try_open(&draft, regex("[ab]{9}"), &[9], 0).await })
    };
    let first = opening();
    draft.metric_becomes(OPEN, 1.0).await;
    // The least recently used idle one, as ever.
    let other = draft.open(&[9], 1).await;
    assert_eq!(Reason::of(&first.await.unwrap().err().unwrap()), Some(Reason::SessionEvicted));
    drop(other);
    draft.metric_becomes(OPEN, 0.0).await;
    let second = opening();
    draft.metric_becomes(OPEN, 1.0).await;
    second.abort();
    draft.metric_becomes(OPEN, 0.0).await;
    let third = opening();
    draft.metric_becomes(OPEN, 1.0).await;
    drop(all_turns);
    let mut third = third.await.unwrap().unwrap();
    assert_eq!(support(&third.advance(&[], 1).await.unwrap().tokens[0]), [0, 1]);
}

#[tokio::test]
async fn more_grammars_than_there_is_memory_for_are_drafted_without() {
    let draft = start(mixed_model(), Options { max_grammars: 1, ..options() });
    let first = open(&draft, regex("[ab]{9}"), &[9], 0).await;
    let mut second = open(&draft, regex("[ab]{9}"), &[9], 0).await;
    assert!(support(&second.advance(&[], 1).await.unwrap().tokens[0]).len() > 2);
    draft.metric_becomes("specfleet_draft_sessions_without_grammar_total", 1.0).await;
    drop(first);
    draft.metric_becomes("specfleet_draft_sessions_open", 1.0).await;
    let mut third = open(&draft, regex("[ab]{9}"), &[9], 0).await;
    assert_eq!(support(&third.advance(&[], 1).await.unwrap().tokens[0]), [0, 1]);
}

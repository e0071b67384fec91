//! Where the output has a form, proposals keep to it: the model's q is masked, and what lookup found is cut.

use specfleet_grammar::Form;
use specfleet_model::{scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_protocol::v1::{self, draft_token::Distribution};
use specfleet_service::Metrics;
use specfleet_speculation::TokenId;

use super::harness::*;
use crate::service::{Options, Service};

/// Ids 0 to 14 spell letters from `a`; 15 ends.
const END: TokenId = 15;

fn start(model: ScriptedModel, options: Options) -> Draft {
    let letters = (b'a'..).take(N_VOCAB - 1).map(|letter| vec![letter]);
    let tokenizer = Tokenizer::from_bytes(letters.chain([b"<end>".to_vec()]).collect(), &[END], &[END]);
    let metrics = Metrics::local().unwrap();
    let service = Service::from_model(Box::new(model), &tokenizer, "scripted", options, &metrics.meter()).unwrap();
    Draft::of_service(service, metrics)
}

/// Opens a session whose output has the form, `n_generated` tokens of the prefix being output.
async fn open(draft: &Draft, form: Form, prefix: &[TokenId], n_generated: usize) -> Session {
    let mut open = draft.open_message(prefix, 1);
    open.prompt_length -= n_generated as u32;
    open.settings.as_mut().unwrap().grammar = Some((&form).into());
    draft.open_with(open).await.unwrap()
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

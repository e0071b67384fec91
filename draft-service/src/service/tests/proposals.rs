//! What is in a proposal: tokens that were drawn from the numbers beside them.

use std::{collections::BTreeMap, time::Duration};

use specfleet_model::scripted::ScriptedModel;
use specfleet_protocol::{
    convert::{ProposalBounds, RoundProposal},
    status::Reason,
    v1::{self, draft_token::Distribution},
};
use specfleet_speculation::{TokenId, distribution::DraftDistribution, propose::Support};
use tonic::Code;

use super::harness::*;

fn read(proposal: v1::Proposal) -> RoundProposal {
    RoundProposal::from_wire(proposal, ProposalBounds { n_vocab: N_VOCAB, draft_length: 8 }).unwrap()
}

/// How often each token was drawn.
type Counts = BTreeMap<TokenId, f64>;

/// Pearson's statistic of counts against probabilities, and its degrees of freedom.
fn chi_square(counts: &Counts, distribution: &DraftDistribution) -> (f64, f64) {
    let n_draws: f64 = counts.values().sum();
    let cells = (0..N_VOCAB as TokenId).filter_map(|token| {
        let expected = distribution.probability(token) * n_draws;
        let seen = counts.get(&token).copied().unwrap_or(0.0);
        assert!(expected > 0.0 || seen == 0.0, "token {token} was drawn and has no probability");
        (expected > 0.0).then(|| (seen - expected).powi(2) / expected)
    });
    let cells: Vec<f64> = cells.collect();
    (cells.iter().sum(), cells.len() as f64 - 1.0)
}

/// Many seeds, one prefix: the first position's q is the same each time, and the tokens must follow it. The same for the
/// second position after the likeliest first token.
#[tokio::test]
async fn tokens_are_drawn_from_the_reported_distributions() {
    for (form, support_is_cut) in [(v1::DistributionForm::Sparse, true), (v1::DistributionForm::Dense, false)] {
        let mut options = options();
        options.support = Support::Top(5.try_into().unwrap());
        let draft = Draft::of_model(mixed_model(), options);
        let prefix = [1, 2, 3];
        let mut positions: [BTreeMap<Vec<TokenId>, (Counts, DraftDistribution)>; 2] = Default::default();
        for seed in 0..3000_u32 {
            let mut request = draft.propose_message(&prefix, 0, 2);
            let settings = request.settings.as_mut().unwrap();
            settings.draft_seed[..4].copy_from_slice(&seed.to_le_bytes());
            settings.form = form.into();
            let answer = draft.client.clone().propose(request).await.unwrap().into_inner();
            let proposal = read(answer.proposal.unwrap()).proposal;
            for (position, (token, q)) in proposal.tokens().iter().zip(proposal.distributions()).enumerate() {
                let before = proposal.tokens()[..position].to_vec();
                let (counts, first_q) = positions[position].entry(before).or_insert_with(|| (Counts::new(), q.clone()));
                assert_eq!(q, first_q, "q may depend on the prefix only");
                *counts.entry(*token).or_default() += 1.0;
            }
        }
        for (counts, q) in positions.iter().flat_map(BTreeMap::values) {
            let n_draws: f64 = counts.values().sum();
            if n_draws < 300.0 {
                continue;
            }
            let (statistic, freedom) = chi_square(counts, q);
            assert_eq!(freedom == 4.0, support_is_cut);
            let limit = freedom + 10.0 * (2.0 * freedom).sqrt();
            assert!(statistic < limit, "{form:?}: {statistic} over {limit} in {n_draws} draws");
        }
    }
}

#[tokio::test]
async fn the_reported_distribution_is_the_shaped_one() {
    // Logits of log 4, log 3, log 2, log 1 in a vocabulary of 16 whose other ids have none.
    let model = ScriptedModel::from_table("* -> 0:4 1:3 2:2 3:1", N_VOCAB).unwrap();
    let draft = Draft::of_model(model, options());
    let mut request = draft.propose_message(&[0], 1, 1);
    let sampling = request.settings.as_mut().unwrap().sampling.as_mut().unwrap();
    (sampling.temperature, sampling.top_k) = (Some(0.5), Some(2));
    let answer = draft.client.clone().propose(request).await.unwrap().into_inner();
    let proposal = read(answer.proposal.unwrap()).proposal;
    let q = &proposal.distributions()[0];
    // Squares of 4 and 3 over their sum.
    assert!((q.probability(0) - 16.0 / 25.0).abs() < 1e-6);
    assert!((q.probability(1) - 9.0 / 25.0).abs() < 1e-6);
    assert_eq!(q.probability(2), 0.0);
}

#[tokio::test]
async fn a_unary_proposal_is_the_session_s() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut session = draft.open(&[1, 2, 3], 9).await;
    session.advance(&[], 3).await.unwrap();
    let mut of_session = session.advance(&[4, 5], 6).await.unwrap();

    let mut request = draft.propose_message(&[1, 2, 3, 4, 5], 9, 6);
    request.prompt_length = 3;
    let mut unary = draft.client.clone().propose(request).await.unwrap().into_inner().proposal.unwrap();
    assert_eq!(unary.version_id, draft.version_id);
    // A call of its own has no rounds; how long it took is its own too.
    (of_session.round, of_session.timings, unary.timings) = (0, None, None);
    assert_eq!(unary, of_session);
}

#[tokio::test]
async fn penalties_count_the_prompt_the_generated_and_the_drafted_tokens() {
    // All ids alike, so that greedy takes the lowest one that no penalty has touched.
    let model = ScriptedModel::from_fn(N_VOCAB, |_| vec![1.0; N_VOCAB]);
    let draft = Draft::of_model(model, options());
    let mut open = greedy(draft.open_message(&[0, 1, 2], 1));
    open.prompt_length = 2;
    let sampling = open.settings.as_mut().unwrap().sampling.as_mut().unwrap();
    sampling.repetition_penalty = Some(2.0);
    let mut session = draft.open_with(open).await.unwrap();
    assert_eq!(ids(&session.advance(&[], 3).await.unwrap()), [3, 4, 5]);
    // What was drafted and not committed leaves no trace.
    assert_eq!(ids(&session.advance(&[4], 3).await.unwrap()), [3, 5, 6]);
}

#[tokio::test]
async fn many_sessions_together_propose_what_each_proposes_alone() {
    const N_SESSIONS: u8 = 16;
    let prefix_of = |seed: u8| -> Vec<TokenId> { (0..=u32::from(seed) * 3).map(|index| index * 5 % 16).collect() };
    async fn two_rounds(session: &mut Session, seed: u8) -> (Vec<v1::DraftToken>, Vec<v1::DraftToken>) {
        let first = session.advance(&[], 4).await.unwrap().tokens;
        let draft_length = u32::from(seed) % 5 + 1;
        let second = session.advance(&[first[0].token_id, 7], draft_length).await.unwrap().tokens;
        (first, second)
    }
    let (model, record) = Recorded::new(mixed_model().with_delay(Duration::from_millis(2)));
    let draft = Draft::of_model(model, options());
    let mut sessions = Vec::new();
    for seed in 0..N_SESSIONS {
        sessions.push(draft.open(&prefix_of(seed), seed).await);
    }
    let rounds = (0..N_SESSIONS).zip(&mut sessions).map(|(seed, session)| two_rounds(session, seed));
    let together = futures::future::join_all(rounds).await;

    let alone = Draft::of_model(mixed_model(), options());
    for (seed, together) in (0..N_SESSIONS).zip(together) {
        let mut session = alone.open(&prefix_of(seed), seed).await;
        assert_eq!(together, two_rounds(&mut session, seed).await, "session {seed}");
    }
    let largest = record.lock().unwrap().iter().map(Vec::len).max();
    assert!(largest >= Some(8), "16 sessions at once should share forward passes, the largest had {largest:?}");
}

#[tokio::test]
async fn a_reduced_head_speaks_in_the_target_s_numbering() {
    let known = [2, 3, 5, 11];
    let draft = Draft::of_model(mixed_model().with_draft_vocab(known.to_vec()), options());
    for form in [v1::DistributionForm::Sparse, v1::DistributionForm::Dense] {
        let mut request = draft.propose_message(&[1, 15], 3, 8);
        request.settings.as_mut().unwrap().form = form.into();
        let answer = draft.client.clone().propose(request).await.unwrap().into_inner();
        let proposal = read(answer.proposal.unwrap()).proposal;
        assert_eq!(proposal.len(), 8);
        for q in proposal.distributions() {
            for id in 0..N_VOCAB as TokenId {
                assert_eq!(q.probability(id) > 0.0, known.contains(&id), "{form:?}: id {id}");
            }
        }
    }
}

#[tokio::test]
async fn under_the_draft_invariant_rule_tokens_are_points_that_the_seed_decides() {
    let draft = Draft::of_model(mixed_model(), options());
    let mut request = draft.propose_message(&[1, 2], 3, 8);
    request.settings.as_mut().unwrap().rule = v1::AcceptanceRule::DraftInvariant.into();
    let propose = async |request: &v1::ProposeRequest| {
        draft.client.clone().propose(request.clone()).await.unwrap().into_inner().proposal.unwrap()
    };
    let proposal = propose(&request).await;
    assert!(proposal.tokens.iter().all(|token| matches!(token.distribution, Some(Distribution::Point(_)))));
    assert_eq!(ids(&proposal), ids(&propose(&request).await));
    request.settings.as_mut().unwrap().draft_seed = vec![4; 32];
    assert_ne!(ids(&proposal), ids(&propose(&request).await));
}

#[tokio::test]
async fn a_row_that_is_not_finite_ends_its_session_alone() {
    let poisoned = |prefix: &[TokenId]| match prefix.first() {
        Some(13) if prefix.len() > 3 => vec![f32::NAN; N_VOCAB],
        _ => mixed_row(prefix),
    };
    let draft = Draft::of_model(ScriptedModel::from_fn(N_VOCAB, poisoned), options());
    let mut sound = draft.open(&[1, 2], 1).await;
    let mut sick = draft.open(&[13, 2], 1).await;
    let (cut, fine) = tokio::join!(sick.advance(&[], 4), sound.advance(&[], 4));
    // What was drawn before the unusable row is not withheld because of what it led to.
    let drawn = ids(&cut.unwrap());
    assert_eq!(drawn.len(), 2);
    assert_eq!(fine.unwrap().tokens.len(), 4);
    let failed = sick.advance(&drawn, 4).await.unwrap_err();
    assert_eq!((failed.code(), Reason::of(&failed)), (Code::Internal, Some(Reason::ModelFailed)));
    assert_eq!(sound.advance(&[3], 4).await.unwrap().tokens.len(), 4);
}

/// The target goes on by itself: its vocabulary has ids left.
#[tokio::test]
async fn a_proposal_ends_where_no_id_is_left_to_the_draft() {
    let draft = Draft::of_model(mixed_model().with_draft_vocab(vec![2, 3]), options());
    let mut open = draft.open_message(&[1, 15], 1);
    let sampling = open.settings.as_mut().unwrap().sampling.as_mut().unwrap();
    (sampling.min_tokens, sampling.end_token_ids) = (2, vec![2, 3]);
    let mut session = draft.open_with(open).await.unwrap();
    assert!(session.advance(&[], 4).await.unwrap().tokens.is_empty());
    // The end tokens are allowed again from the third generated token on.
    assert_eq!(session.advance(&[7, 8], 4).await.unwrap().tokens.len(), 4);
}

/// The draft's table may be padded further than the target's: ids that the target does not have are never proposed.
#[tokio::test]
async fn ids_beyond_the_target_s_vocabulary_are_not_proposed() {
    const N_TARGET: usize = 10;
    let favours_padding = |_: &[TokenId]| (0..N_VOCAB).map(|id| id as f32).collect();
    let draft = Draft::of_model(ScriptedModel::from_fn(N_VOCAB, favours_padding), options());
    for form in [v1::DistributionForm::Sparse, v1::DistributionForm::Dense] {
        let mut request = draft.propose_message(&[1, 2], 3, 8);
        let settings = request.settings.as_mut().unwrap();
        settings.form = form.into();
        settings.vocabulary_size = N_TARGET as u32;
        let answer = draft.client.clone().propose(request).await.unwrap().into_inner();
        let bounds = ProposalBounds { n_vocab: N_TARGET, draft_length: 8 };
        let read = RoundProposal::from_wire(answer.proposal.unwrap(), bounds).unwrap();
        assert_eq!(read.proposal.len(), 8, "{form:?}");
    }
}

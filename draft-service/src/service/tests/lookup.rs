//! Prompt lookup behind the same service.

use specfleet_protocol::v1::{self, draft_token::Distribution};

use super::harness::*;

#[tokio::test]
async fn it_proposes_what_followed_before_as_points() {
    let draft = Draft::of_lookup();
    for rule in [v1::AcceptanceRule::Standard, v1::AcceptanceRule::DraftInvariant] {
        let mut open = draft.open_message(&[10, 11, 12, 13, 14, 10, 11], 1);
        open.settings.as_mut().unwrap().rule = rule.into();
        let mut session = draft.open_with(open).await.unwrap();
        let proposal = session.advance(&[], 3).await.unwrap();
        assert_eq!(ids(&proposal), [12, 13, 14]);
        assert!(proposal.tokens.iter().all(|token| matches!(token.distribution, Some(Distribution::Point(_)))));
        assert_eq!(proposal.version_id, draft.version_id);
        // Committed tokens are searched too, and ids of any vocabulary are known.
        assert!(session.advance(&[70_000], 3).await.unwrap().tokens.is_empty());
        assert_eq!(ids(&session.advance(&[11], 2).await.unwrap()), [70_000, 11]);
    }
}

#[tokio::test]
async fn an_empty_proposal_is_an_answer() {
    let draft = Draft::of_lookup();
    let request = draft.propose_message(&[1, 2, 3], 1, 4);
    let proposal = draft.client.clone().propose(request).await.unwrap().into_inner().proposal.unwrap();
    assert!(proposal.tokens.is_empty());
    assert_eq!(proposal.base_length, 3);
}

#[tokio::test]
async fn its_memory_is_bounded_too() {
    let draft = Draft::of_lookup();
    let first = draft.open(&[1; 600], 1).await;
    let second = draft.open(&[2; 600], 1).await;
    assert_eq!(draft.metric("specfleet_draft_evictions_total"), 1.0);
    drop((first, second));
    draft.metric_becomes("specfleet_draft_memory_tokens", 0.0).await;
}

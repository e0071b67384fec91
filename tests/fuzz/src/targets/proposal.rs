//! What a draft sends during a session, as the verifier reads it.

use std::time::Duration;

use prost::Message;
use specfleet_protocol::{
    convert::{ProposalBounds, RoundProposal, Timings},
    v1::{self, draft_response},
};
use specfleet_speculation::distribution::{DenseWeights, DraftDistribution, Proposal, SparseWeights};

use crate::{Allowance, Answer, Decode, Target};

const BOUNDS: ProposalBounds = ProposalBounds { n_vocab: 300, draft_length: 8 };

/// An empty token takes two bytes on the wire and about eighty here, while its list grows by doubling.
pub(super) const TARGET: Target = Target {
    name: "proposal",
    allowance: Allowance { fixed: 8 << 10, per_byte: 192 },
    seeds,
    start: || Box::new(decode) as Decode,
};

fn decode(bytes: &[u8]) -> Answer {
    let Ok(v1::DraftResponse { message: Some(draft_response::Message::Proposal(wire)) }) =
        v1::DraftResponse::decode(bytes)
    else {
        return Answer::Refused;
    };
    let read = RoundProposal::from_wire(wire, BOUNDS);
    if let Ok(read) = &read {
        check(&read.proposal);
        let again = v1::Proposal::decode(v1::Proposal::from(read).encode_to_vec().as_slice());
        let again = RoundProposal::from_wire(again.expect("what we write parses"), BOUNDS);
        assert_eq!(again.expect("what we write is allowed").proposal, read.proposal);
    }
    Answer::of(&read)
}

/// What the acceptance rule relies on.
pub(super) fn check(proposal: &Proposal) {
    assert!(proposal.len() <= BOUNDS.draft_length);
    assert_eq!(proposal.tokens().len(), proposal.distributions().len());
    for (&token, distribution) in proposal.tokens().iter().zip(proposal.distributions()) {
        assert!((token as usize) < BOUNDS.n_vocab);
        assert!(distribution.probability(token) > 0.0);
        let mass: f64 = (0..BOUNDS.n_vocab as u32).map(|id| distribution.probability(id)).sum();
        assert!((mass - 1.0).abs() < 1e-6, "the probabilities add up to {mass}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let point = || DraftDistribution::Point(7);
    let sparse = || SparseWeights::new(vec![0, 7, 8, 200, 299], vec![1, 1 << 20, 3, u32::MAX, 9]);
    let sparse = || DraftDistribution::Sparse(sparse().expect("good weights"));
    let dense = || DenseWeights::new(vec![1.0 / 40.0; 40]);
    let dense = || DraftDistribution::Dense(dense().expect("good weights"));
    [
        vec![],
        vec![point()],
        vec![sparse(), sparse(), sparse(), sparse()],
        vec![dense()],
        vec![point(), sparse(), dense(), point(), sparse(), dense(), point(), sparse()],
    ]
    .into_iter()
    .map(|distributions| {
        let tokens = vec![7; distributions.len()];
        let proposal = Proposal::new(tokens, distributions, BOUNDS.n_vocab).expect("a good proposal");
        let proposal = RoundProposal {
            round: 3,
            base_length: 77,
            base_digest: 0x0123_4567_89AB_CDEF,
            version_id: "0123456789abcdef".repeat(4),
            proposal,
            timings: Timings { queue: Duration::from_micros(5), compute: Duration::from_millis(2) },
        };
        let message = draft_response::Message::Proposal((&proposal).into());
        v1::DraftResponse { message: Some(message) }.encode_to_vec()
    })
    .collect()
}

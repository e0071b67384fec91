//! A whole proposal: what it is about, who made it, and the tokens.

use std::time::Duration;

use specfleet_speculation::distribution::Proposal;

use super::{Error, draft_token};
use crate::v1;

/// What a proposal may hold at most.
#[derive(Clone, Copy, Debug)]
pub struct ProposalBounds {
    /// Ids in the target's vocabulary.
    pub n_vocab: usize,
    /// Tokens that were asked for.
    pub draft_length: usize,
}

/// [`v1::Proposal`] with its tokens checked. Whether round, base and version are the ones wanted is not checked here: a
/// late proposal is no broken one.
#[derive(Clone, Debug)]
pub struct RoundProposal {
    /// Echo of the advance's round.
    pub round: u64,
    /// Length of the prefix it continues.
    pub base_length: u32,
    /// Digest of that prefix.
    pub base_digest: u64,
    /// The version that made it.
    pub version_id: String,
    /// The tokens; may be empty.
    pub proposal: Proposal,
    /// Where the draft spent its time.
    pub timings: Timings,
}

/// Where a draft spent the time of one proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From arrival to the first forward pass.
    pub queue: Duration,
    /// In forward passes and draws.
    pub compute: Duration,
}

impl RoundProposal {
    /// Reads a proposal that a peer sent.
    pub fn from_wire(wire: v1::Proposal, bounds: ProposalBounds) -> Result<Self, Error> {
        if wire.tokens.len() > bounds.draft_length {
            return Err(Error::TooLong { field: "tokens", length: wire.tokens.len(), most: bounds.draft_length });
        }
        let mut tokens = Vec::with_capacity(wire.tokens.len());
        let mut distributions = Vec::with_capacity(wire.tokens.len());
        for draft_token in wire.tokens {
            let (token, distribution) = draft_token::read(draft_token, bounds.n_vocab)?;
            tokens.push(token);
            distributions.push(distribution);
        }
        Ok(Self {
            round: wire.round,
            base_length: wire.base_length,
            base_digest: wire.base_digest,
            version_id: wire.version_id,
            proposal: Proposal::new(tokens, distributions, bounds.n_vocab)?,
            timings: wire.timings.map(Timings::from).unwrap_or_default(),
        })
    }
}

impl From<&RoundProposal> for v1::Proposal {
    fn from(round: &RoundProposal) -> Self {
        let proposal = &round.proposal;
        Self {
            round: round.round,
            base_length: round.base_length,
            base_digest: round.base_digest,
            version_id: round.version_id.clone(),
            tokens: proposal
                .tokens()
                .iter()
                .zip(proposal.distributions())
                .map(|(&token, distribution)| draft_token::write(token, distribution))
                .collect(),
            timings: Some(round.timings.into()),
        }
    }
}

impl From<v1::DraftTimings> for Timings {
    fn from(wire: v1::DraftTimings) -> Self {
        Self {
            queue: Duration::from_micros(wire.queue_micros.into()),
            compute: Duration::from_micros(wire.compute_micros.into()),
        }
    }
}

impl From<Timings> for v1::DraftTimings {
    fn from(timings: Timings) -> Self {
        Self { queue_micros: micros(timings.queue), compute_micros: micros(timings.compute) }
    }
}

/// More than the 71 minutes that fit are as good as 71 minutes.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

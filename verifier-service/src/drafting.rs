//! Drafts are other people's processes: they start late, hang, die, get upgraded and come back. A request must feel none
//! of it but the speed.
//!
//! - [`pool`](Pool) keeps an eye on every configured draft: is it there, what is it, does it fit the target.
//! - [`policy`] decides which of them a request is bound to.
//! - [`session`](Session) is one stream to one draft about one sequence. It runs on the async side and turns what the
//!   draft says into [`DraftEvent`]s for the engine, checked as far as that is possible without the engine's state.
//! - [`trust`] says how far each version is believed, and why.
//!
//! What is left to the engine is the one question only it can answer: is the proposal about the prefix that is committed
//! *now*?

use std::{fmt, sync::Arc, time::Instant};

use specfleet_protocol::convert::{RoundProposal, Timings};
use specfleet_speculation::distribution::Proposal;

mod compatibility;
mod draft;
mod keeper;
mod policy;
mod pool;
mod session;
mod trust;

pub(crate) use draft::Draft;
pub(crate) use pool::{Opening, Pool, Target};
pub(crate) use session::{Ask, Session};
pub use trust::{NotAVersion, UntrustedDraft};
pub(crate) use trust::{Quota, Standing, Version};

/// Why a round had no proposal, or a proposal was not used. The words of `SpeculationReport` and of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PlainReason {
    /// The request asked for plain decoding.
    Off,
    /// No draft is ready.
    NoDraft,
    /// The answer was not in by its time, or drafts were late so often that this one was not asked.
    Late,
    /// The draft serves, or answered for, another version than the pinned one.
    VersionMismatch,
    /// The proposal is about a prefix that is no longer the committed one.
    Stale,
    /// The draft broke the rules of the protocol.
    Malformed,
    /// The stream failed.
    StreamError,
    /// The draft had nothing to propose, or has no room for the sequence.
    NothingProposed,
    /// There is no room for a draft token before the request's end.
    Budget,
    /// So many requests run that draft rows would no longer be free.
    Load,
    /// Masks of the output's form take so long, or are so little known, that there is no time for those behind draft tokens.
    Masks,
}

impl PlainReason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::NoDraft => "no_draft",
            Self::Late => "late",
            Self::VersionMismatch => "version_mismatch",
            Self::Stale => "stale",
            Self::Malformed => "malformed",
            Self::StreamError => "stream_error",
            Self::NothingProposed => "nothing_proposed",
            Self::Budget => "budget",
            Self::Load => "load",
            Self::Masks => "masks",
        }
    }
}

impl fmt::Display for PlainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names a session for the life of the process, so that what an ended one still says is recognised as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionId(u64);

/// A well-formed answer of the pinned version, with the moment it arrived.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) round: u64,
    pub(crate) base_length: u32,
    pub(crate) base_digest: u64,
    pub(crate) proposal: Proposal,
    pub(crate) timings: Timings,
    pub(crate) arrived: Instant,
}

impl Reply {
    fn new(round: RoundProposal, arrived: Instant) -> Self {
        let RoundProposal { round, base_length, base_digest, proposal, timings, version_id: _ } = round;
        Self { round, base_length, base_digest, proposal, timings, arrived }
    }
}

/// What a session tells the engine.
#[derive(Debug)]
pub(crate) struct DraftEvent {
    /// The sequence that the session is about.
    pub(crate) sequence: u64,
    pub(crate) session: SessionId,
    pub(crate) kind: DraftEventKind,
}

#[derive(Debug)]
pub(crate) enum DraftEventKind {
    /// An answer.
    Reply(Reply),
    /// The session is over, and not because the engine ended it.
    Closed(Closed),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) reason: PlainReason,
    /// Whether a proposal was thrown away with it.
    pub(crate) dropped_proposal: bool,
    /// Whether the draft itself is in doubt, or just this session. In the first case the pool has taken the draft out
    /// already and says when it is back; in the second, asking again at once would only meet the same end.
    pub(crate) draft_in_doubt: bool,
}

/// Hands events to the engine. Called on async threads: MUST NOT block.
pub(crate) type Listener = Arc<dyn Fn(DraftEvent) + Send + Sync>;

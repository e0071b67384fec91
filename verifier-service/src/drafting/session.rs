//! One stream to one draft about one sequence.
//!
//! The engine holds the [`Session`] and sends [`Ask`]s, at most one at a time; the task behind it speaks to the draft.
//! Dropping the handle half-closes the stream, by which the draft frees its memory.
//!
//! A draft is not trusted with anything. Its answer reaches the engine only if it is of the pinned version, answers what
//! was asked, and holds well-formed distributions; an answer that does not ends the session. Whether the answer is about
//! the prefix that is committed when it arrives is for the engine to say.

use std::{sync::Arc, time::Duration};

use specfleet_protocol::v1;
use specfleet_speculation::TokenId;
use tokio::{runtime::Handle, sync::mpsc};
use tracing::{Instrument, Span, field::Empty, info_span};

use super::{Opening, SessionId, Version, draft::Draft};

mod conversation;
mod failure;
mod notifier;

use conversation::Conversation;
use notifier::Notifier;

/// Messages on their way to the stream: `Open` and the first `Advance`.
const OUTGOING: usize = 2;

/// A question to the draft: what follows this prefix?
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) round: u64,
    /// Tokens committed since the draft was last told.
    pub(crate) committed: Vec<TokenId>,
    pub(crate) base_length: u32,
    pub(crate) base_digest: u64,
    pub(crate) draft_length: u32,
    /// After this the answer is of no use.
    pub(crate) wait: Duration,
    /// The round's span: the parent of the draft call's.
    pub(crate) span: Span,
}

/// The engine's end of a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) draft: Arc<Draft>,
    pub(crate) version: Arc<Version>,
    /// Positions that the draft says it can hold. Its memory may be full before that.
    pub(crate) context_length: usize,
    asks: mpsc::Sender<Ask>,
}

impl Session {
    /// Sends a question; `false` if the session is over, of which the engine hears as well. Never blocks: the engine asks
    /// one at a time.
    pub(crate) fn ask(&self, ask: Ask) -> bool {
        self.asks.try_send(ask).is_ok()
    }
}

/// Starts a session with `draft`, pinned to the version of `identity`.
pub(super) fn open(
    runtime: &Handle,
    id: SessionId,
    draft: Arc<Draft>,
    identity: Arc<v1::Identity>,
    version: Arc<Version>,
    n_vocab: usize,
    opening: Opening,
) -> Session {
    let Opening { sequence, mut open, time_left, span, listener } = opening;
    let (asks, questions) = mpsc::channel(OUTGOING);
    let span =
        info_span!(parent: &span, "draft_session", endpoint = draft.endpoint, version = &*version.id, ended_by = Empty);
    // Counted before the next request chooses, not when the task gets to run.
    let counted = draft.open_session();
    let context_length = identity.context_length as usize;
    open.pin = version.id.to_string();
    let notifier = Notifier::new(sequence, id, listener);
    let conversation = Conversation { draft: draft.clone(), identity, n_vocab, notifier, questions, counted };
    runtime.spawn(conversation.run(open, time_left).instrument(span));
    Session { id, draft, version, context_length, asks }
}

//! Advances arrive from many connections at once, but a model computes one forward pass at a time, and one pass over
//! sixteen sessions costs little more than over one. So everything that touches the model lives on one OS thread, which
//! takes commands from a bounded channel and batches whatever waits.
//!
//! - [`Engine`] is the async side's way in: cheap to clone, and when its channel is full it refuses instead of waiting.
//! - [`SessionHandle`] stands for one session. Dropping it closes the session, wherever the drop happens, so a client that
//!   goes away leaves nothing behind.
//! - [`worker`] is the loop of the thread; it knows sessions, limits and time, but not how tokens are drafted.
//! - [`drafter`] is the seam behind it: a language model ([`crate::model`]) or prompt lookup ([`crate::lookup`]).

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use specfleet_grammar::Matcher;
use specfleet_protocol::status::Prefix;
use specfleet_service::Progress;
use specfleet_speculation::{
    TokenId,
    distribution::DraftDistribution,
    propose::{Rule, Support},
    random::DraftRandomness,
    transform::Transforms,
};
use tokio::sync::oneshot;
use tracing::Span;

use crate::telemetry::Metrics;

pub(crate) mod draft;
pub(crate) mod drafter;
pub(crate) mod session;
mod worker;

use self::{drafter::Drafter, worker::Worker};

/// Commands that may wait: one for each session, and room for those that are being opened.
const COMMANDS_PER_SESSION: usize = 2;

/// The bounds of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Sessions held at once.
    pub(crate) max_sessions: usize,
    /// Tokens in one proposal.
    pub(crate) max_draft_length: usize,
}

/// What shapes and draws every proposal of a session.
pub(crate) struct Settings {
    pub(crate) transforms: Transforms,
    pub(crate) randomness: DraftRandomness,
    pub(crate) rule: Rule,
    pub(crate) support: Support,
}

/// A session to be opened. All ids are known to be in range, and the prefix not to be empty.
pub(crate) struct Open {
    pub(crate) committed: Vec<TokenId>,
    /// How many of them are the prompt.
    pub(crate) n_prompt: usize,
    pub(crate) settings: Settings,
}

/// A proposal to be made after a longer prefix.
#[derive(Debug)]
pub(crate) struct Advance {
    /// Tokens committed since the last one, ids in range.
    pub(crate) committed: Vec<TokenId>,
    /// What the caller takes the prefix to be, with them.
    pub(crate) base: Prefix,
    /// Tokens wanted.
    pub(crate) draft_length: usize,
    pub(crate) arrived: Instant,
    /// When the proposal stops being of use.
    pub(crate) deadline: Option<Instant>,
}

/// What was drafted, and after what.
#[derive(Debug)]
pub(crate) struct Proposed {
    /// The prefix that the session held.
    pub(crate) base: Prefix,
    pub(crate) tokens: Vec<TokenId>,
    /// What each token was drawn from.
    pub(crate) distributions: Vec<DraftDistribution>,
    /// From arrival to the first forward pass.
    pub(crate) queue: Duration,
    /// In forward passes that had rows of this session, and draws.
    pub(crate) compute: Duration,
}

/// Why the engine did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The prefix is longer than the model's positions or its whole KV memory.
    #[error("{n_tokens} tokens do not fit the {limit} that this draft can hold")]
    TooLong {
        /// Tokens in the prefix.
        n_tokens: usize,
        /// The most that fit.
        limit: usize,
    },
    /// The caller speaks about another prefix.
    #[error("the session holds {} tokens, the message speaks about {}", held.length, sent.length)]
    PrefixMismatch {
        /// What the session holds.
        held: Prefix,
        /// What the message says.
        sent: Prefix,
    },
    /// Closed to make room for other sessions.
    #[error("the session was closed to make room for others")]
    Evicted,
    /// No room, and no idle session to close for it.
    #[error("{0}")]
    Full(&'static str),
    /// The model failed.
    #[error("the draft model failed: {0}")]
    Model(String),
    /// The engine's thread has ended.
    #[error("the drafting engine has stopped")]
    Stopped,
}

/// Names a session inside the engine; ascending in the order of opening.
pub(crate) type SessionId = u64;

pub(crate) enum Command {
    Open { open: Box<Open>, engine: Engine, reply: oneshot::Sender<Result<SessionHandle, Error>> },
    Constrain { session: SessionId, grammar: Box<Matcher> },
    Advance { session: SessionId, advance: Advance, reply: oneshot::Sender<Result<Proposed, Error>>, span: Span },
}

/// The way to the engine's thread. The thread ends when the last clone and the last session are gone.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    commands: Sender<Command>,
    /// Apart from the commands, since closing must not fail when those are full. Holds at most one message for each
    /// session that was opened, so it needs no bound of its own.
    closes: Sender<SessionId>,
}

/// Resolves when the engine's thread has ended, for whatever reason.
pub(crate) type Ended = oneshot::Receiver<()>;

impl Engine {
    /// Starts the thread, which tells `progress` that it moves.
    pub(crate) fn start<D: Drafter>(
        drafter: D,
        limits: Limits,
        metrics: Arc<Metrics>,
        progress: Progress,
    ) -> io::Result<(Self, Ended)> {
        let (commands, waiting) = crossbeam_channel::bounded(limits.max_sessions.saturating_mul(COMMANDS_PER_SESSION));
        let (closes, closing) = crossbeam_channel::unbounded();
        let (alive, ended) = oneshot::channel();
        thread::Builder::new().name("draft-engine".into()).spawn(move || {
            // Dropped when the thread ends, by return or by panic.
            let _alive: oneshot::Sender<()> = alive;
            Worker::new(drafter, limits, metrics, progress, Inbox { commands: waiting, closes: closing }).run();
        })?;
        Ok((Self { commands, closes }, ended))
    }

    /// Opens a session. Its prefix is ingested in the background from now on.
    pub(crate) async fn open(&self, open: Open) -> Result<SessionHandle, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Open { open: Box::new(open), engine: self.clone(), reply })?;
        answer.await.unwrap_or(Err(Error::Stopped))
    }

    fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.try_send(command).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::Full("too many draft calls are waiting; try again later"),
            TrySendError::Disconnected(_) => Error::Stopped,
        })
    }
}

/// One open session. Dropping it closes the session and frees its memory.
#[derive(Debug)]
pub(crate) struct SessionHandle {
    id: SessionId,
    engine: Engine,
    closed: oneshot::Receiver<Error>,
}

impl SessionHandle {
    pub(crate) fn new(id: SessionId, engine: Engine, closed: oneshot::Receiver<Error>) -> Self {
        Self { id, engine, closed }
    }

    /// Holds what is drafted from now on to a form. The grammar stands behind the committed tokens.
    pub(crate) fn constrain(&mut self, grammar: Matcher) -> Result<(), Error> {
        self.engine.send(Command::Constrain { session: self.id, grammar: Box::new(grammar) })
    }

    /// Appends committed tokens and drafts after them. Dropping the future abandons the draft.
    pub(crate) async fn advance(&mut self, advance: Advance, span: Span) -> Result<Proposed, Error> {
        let (reply, answer) = oneshot::channel();
        self.engine.send(Command::Advance { session: self.id, advance, reply, span })?;
        match answer.await {
            Ok(proposed) => proposed,
            Err(_) => Err(self.closed().await),
        }
    }

    /// Waits until the engine closes the session of its own accord, and says why. To be awaited to its end once.
    pub(crate) async fn closed(&mut self) -> Error {
        (&mut self.closed).await.unwrap_or(Error::Stopped)
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        // Fails only when the thread has ended, and the session with it.
        let _ = self.engine.closes.send(self.id);
    }
}

/// What the thread reads from.
pub(crate) struct Inbox {
    pub(crate) commands: Receiver<Command>,
    pub(crate) closes: Receiver<SessionId>,
}

//! All configured drafts, and the way to a session with one of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use specfleet_model::{identity::VocabularyFingerprint, tokenizer::Tokenizer};
use specfleet_protocol::{
    limits::MessageLimits,
    v1::{self, draft_service_client::DraftServiceClient},
};
use tokio::{runtime::Handle, task::JoinSet};
use tonic::transport::Channel;
use tracing::Span;

use super::{
    Listener, PlainReason, SessionId,
    draft::{Draft, State},
    keeper,
    policy::{self, Candidate},
    session::{self, Session},
    trust::{UntrustedDraft, Versions},
};

/// What drafts are measured against.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) vocabulary: VocabularyFingerprint,
    /// To name a token that a draft spells otherwise.
    pub(crate) tokenizer: Tokenizer,
    pub(crate) n_vocab: usize,
    pub(crate) limits: MessageLimits,
}

/// What a session starts from.
pub(crate) struct Opening {
    pub(crate) sequence: u64,
    /// The message, without its pin, which the pool fills in.
    pub(crate) open: v1::Open,
    /// What is left of the request's own time.
    pub(crate) time_left: Option<Duration>,
    /// The request's span: the parent of what the draft does for it.
    pub(crate) span: Span,
    pub(crate) listener: Listener,
}

/// The drafts of this verifier. Everything here is quick and callable from the engine's thread.
#[derive(Debug)]
pub(crate) struct Pool {
    drafts: Vec<Arc<Draft>>,
    versions: Versions,
    target: Arc<Target>,
    generation: Arc<AtomicU64>,
    next_session: AtomicU64,
    runtime: Handle,
    /// Ends with the pool.
    _keepers: JoinSet<()>,
}

impl Pool {
    /// Starts to look after the drafts behind the channels, in order of preference. Must be called inside a runtime.
    pub(crate) fn start(channels: Vec<(String, Channel)>, target: Target, untrusted: Vec<UntrustedDraft>) -> Arc<Self> {
        let (target, generation, mut keepers) = (Arc::new(target), Arc::default(), JoinSet::new());
        let drafts = (channels.into_iter())
            .map(|(endpoint, channel)| {
                let client = DraftServiceClient::new(channel)
                    .max_decoding_message_size(target.limits.proposal_bytes.max(identity_bytes(target.n_vocab)))
                    .max_encoding_message_size(target.limits.request_bytes);
                let draft = Arc::new(Draft::new(endpoint, client));
                keepers.spawn(keeper::keep(draft.clone(), target.clone(), Arc::clone(&generation)));
                draft
            })
            .collect();
        let runtime = Handle::current();
        Arc::new(Self {
            drafts,
            versions: Versions::new(untrusted),
            target,
            generation,
            next_session: AtomicU64::new(0),
            runtime,
            _keepers: keepers,
        })
    }

    /// Grows whenever a draft becomes ready: a request that found none needs to look again only then.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Opens a session with a draft of the pinned version, or of whatever the policy prefers.
    pub(crate) fn attach(&self, pin: Option<&str>, opening: Opening) -> Result<Session, PlainReason> {
        let states: Vec<State> = self.drafts.iter().map(|draft| draft.state()).collect();
        let index = policy::choose(&self.candidates(&states), pin, opening.open.committed.len())?;
        let State::Ready(identity) = &states[index] else {
            return Err(PlainReason::NoDraft);
        };
        let id = SessionId(self.next_session.fetch_add(1, Ordering::Relaxed));
        let (draft, version) = (self.drafts[index].clone(), self.versions.of(identity));
        Ok(session::open(&self.runtime, id, draft, identity.clone(), version, self.target.n_vocab, opening))
    }

    /// Whether a draft of version `pin` could be used now.
    pub(crate) fn has_ready(&self, pin: &str) -> bool {
        let states: Vec<State> = self.drafts.iter().map(|draft| draft.state()).collect();
        policy::choose(&self.candidates(&states), Some(pin), 0).is_ok()
    }

    /// The version of the first draft in configured order that could be used now.
    pub(crate) fn first_ready(&self) -> Option<String> {
        self.drafts.iter().find_map(|draft| match draft.state() {
            State::Ready(identity) => Some(identity.version_id.clone()),
            State::Unreachable { .. } | State::Incompatible { .. } => None,
        })
    }

    /// For `GetIdentity`, in configured order.
    pub(crate) fn statuses(&self) -> Vec<v1::DraftStatus> {
        self.drafts.iter().map(|draft| draft.status()).collect()
    }

    /// For `ListDraftVersions`, in order of first use.
    pub(crate) fn versions(&self) -> Vec<v1::DraftVersion> {
        self.versions.list()
    }

    fn candidates<'a>(&self, states: &'a [State]) -> Vec<Candidate<'a>> {
        let candidate = |(draft, state): (&Arc<Draft>, &'a State)| {
            let (version, context_length) = match state {
                State::Ready(identity) => (Some(identity.version_id.as_str()), identity.context_length as usize),
                State::Unreachable { .. } | State::Incompatible { .. } => (None, 0),
            };
            Candidate { version, context_length, n_sessions: draft.n_sessions() }
        };
        self.drafts.iter().zip(states).map(candidate).collect()
    }
}

/// An identity carries 4 bytes for each id, and a few hundred more.
fn identity_bytes(n_vocab: usize) -> usize {
    // A draft's table may be padded further than the target's.
    n_vocab.saturating_mul(8).saturating_add(64 << 10)
}

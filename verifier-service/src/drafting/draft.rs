//! One configured draft: where it is, what it was when last asked, and how it has done.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use specfleet_protocol::v1::{self, draft_service_client::DraftServiceClient};
use tokio::sync::Notify;
use tonic::transport::Channel;

/// What the pool knows about a draft.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It answers and fits the target.
    Ready(Arc<v1::Identity>),
    /// It does not answer, or its sessions fail.
    Unreachable { detail: String },
    /// It answers, but cannot draft for this target or breaks the protocol.
    Incompatible { detail: String },
}

impl State {
    /// Why it is not ready; empty if it is.
    pub(super) fn detail(&self) -> &str {
        match self {
            Self::Ready(_) => "",
            Self::Unreachable { detail } | Self::Incompatible { detail } => detail,
        }
    }
}

/// A draft and its counters.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) endpoint: String,
    pub(super) client: DraftServiceClient<Channel>,
    state: RwLock<State>,
    /// The identity of the last answer, also while the draft is not ready.
    last_identity: RwLock<Option<Arc<v1::Identity>>>,
    /// Wakes the keeper before its time.
    pub(super) doubt: Notify,
    /// How often sessions put it in doubt since the last good proposal.
    n_failed_in_a_row: AtomicU32,
    n_proposed: AtomicU64,
    n_accepted: AtomicU64,
    n_sessions: AtomicU32,
}

impl Draft {
    pub(super) fn new(endpoint: String, client: DraftServiceClient<Channel>) -> Self {
        Self {
            endpoint,
            client,
            state: RwLock::new(State::Unreachable { detail: "not contacted yet".to_owned() }),
            last_identity: RwLock::default(),
            doubt: Notify::new(),
            n_failed_in_a_row: AtomicU32::new(0),
            n_proposed: AtomicU64::new(0),
            n_accepted: AtomicU64::new(0),
            n_sessions: AtomicU32::new(0),
        }
    }

    pub(super) fn state(&self) -> State {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_state(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(super) fn last_identity(&self) -> Option<Arc<v1::Identity>> {
        self.last_identity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last_identity(&self, identity: Arc<v1::Identity>) {
        *self.last_identity.write().unwrap_or_else(PoisonError::into_inner) = Some(identity);
    }

    /// Takes the draft out of use until the keeper has looked at it, if it is still the process that was `met`. A process
    /// that dies takes all its sessions with it: only the first of them brings news.
    pub(super) fn put_in_doubt(&self, met: &v1::Identity, state: State) {
        let mut current = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*current, State::Ready(ready) if is_same_process(ready, met)) {
            *current = state;
            self.n_failed_in_a_row.fetch_add(1, Relaxed);
            self.doubt.notify_one();
        }
    }

    pub(super) fn n_failed_in_a_row(&self) -> u32 {
        self.n_failed_in_a_row.load(Relaxed)
    }

    /// A session got a proposal that can be used.
    pub(super) fn has_proven_itself(&self) {
        self.n_failed_in_a_row.store(0, Relaxed);
    }

    /// A round tested a proposal of `n_proposed` tokens.
    pub(crate) fn count_round(&self, n_proposed: usize, n_accepted: usize) {
        self.n_proposed.fetch_add(n_proposed as u64, Relaxed);
        self.n_accepted.fetch_add(n_accepted as u64, Relaxed);
    }

    pub(super) fn n_sessions(&self) -> u32 {
        self.n_sessions.load(Relaxed)
    }

    /// Counts a session for as long as the guard lives.
    pub(super) fn open_session(self: &Arc<Self>) -> OpenSession {
        self.n_sessions.fetch_add(1, Relaxed);
        OpenSession(self.clone())
    }

    pub(super) fn status(&self) -> v1::DraftStatus {
        let state = self.state();
        let wire_state = match state {
            State::Ready(_) => v1::DraftState::Ready,
            State::Unreachable { .. } => v1::DraftState::Unreachable,
            State::Incompatible { .. } => v1::DraftState::Incompatible,
        };
        v1::DraftStatus {
            endpoint: self.endpoint.clone(),
            state: wire_state.into(),
            identity: self.last_identity().map(|identity| (*identity).clone()),
            detail: state.detail().to_owned(),
            tokens_proposed: self.n_proposed.load(Relaxed),
            tokens_accepted: self.n_accepted.load(Relaxed),
            open_sessions: self.n_sessions(),
        }
    }
}

/// Whether two answers about identity came from one process that serves one version.
pub(super) fn is_same_process(one: &v1::Identity, other: &v1::Identity) -> bool {
    one.version_id == other.version_id && one.incarnation == other.incarnation
}

/// Keeps a session counted.
#[derive(Debug)]
pub(super) struct OpenSession(Arc<Draft>);

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.n_sessions.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use specfleet_protocol::channel;

    use super::*;

    fn identity(incarnation: &str) -> Arc<v1::Identity> {
        Arc::new(v1::Identity { incarnation: incarnation.to_owned(), ..Default::default() })
    }

    fn gone() -> State {
        State::Unreachable { detail: "gone".to_owned() }
    }

    #[tokio::test]
    async fn a_hundred_sessions_that_die_together_are_one_incident() {
        let draft = Draft::new("draft".to_owned(), DraftServiceClient::new(channel::in_memory().0));
        let first = identity("first");
        for n_incidents in 1..=3 {
            draft.set_state(State::Ready(first.clone()));
            (0..100).for_each(|_| draft.put_in_doubt(&first, gone()));
            assert_eq!(draft.n_failed_in_a_row(), n_incidents);
            assert!(matches!(draft.state(), State::Unreachable { .. }));
        }
    }

    #[tokio::test]
    async fn the_last_words_of_an_old_process_do_not_touch_the_new_one() {
        let draft = Draft::new("draft".to_owned(), DraftServiceClient::new(channel::in_memory().0));
        draft.set_state(State::Ready(identity("second")));
        draft.put_in_doubt(&identity("first"), gone());
        assert!(matches!(draft.state(), State::Ready(_)));
        assert_eq!(draft.n_failed_in_a_row(), 0);
    }
}

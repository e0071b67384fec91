use std::sync::Arc;

use tokio::sync::watch;

/// Whether this process should get requests: not before its model is loaded, not while its engine hangs, and not once it
/// is leaving. Clones share one state.
#[derive(Clone, Debug)]
pub struct Readiness {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready,
    Stalled,
    Draining,
}

impl State {
    /// For whoever asks by HTTP.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "not ready: starting",
            Self::Ready => "ready",
            Self::Stalled => "not ready: work waits and the engine does not move",
            Self::Draining => "not ready: leaving",
        }
    }
}

impl Readiness {
    /// Not ready yet.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(State::Starting)) }
    }

    /// Ready for requests from now on. Has no effect once draining: a model that finishes loading during shutdown must
    /// not attract requests.
    pub fn set_ready(&self) {
        self.pass(State::Starting, State::Ready);
    }

    /// Not ready until the engine moves again; `true` if it was.
    pub(super) fn set_stalled(&self) -> bool {
        self.pass(State::Ready, State::Stalled)
    }

    /// Ends a stall; `true` if there was one.
    pub(super) fn set_moving(&self) -> bool {
        self.pass(State::Stalled, State::Ready)
    }

    /// Not ready any more, for good.
    pub fn set_draining(&self) {
        self.state.send_replace(State::Draining);
    }

    /// Whether requests are welcome now.
    pub fn is_ready(&self) -> bool {
        self.state() == State::Ready
    }

    pub(crate) fn state(&self) -> State {
        *self.state.borrow()
    }

    /// For whoever must hear of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// From one state to another; `false` if it is in a third.
    fn pass(&self, from: State, to: State) -> bool {
        self.state.send_if_modified(|state| {
            let passes = *state == from;
            if passes {
                *state = to;
            }
            passes
        })
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_is_final() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        readiness.set_ready();
        assert!(readiness.clone().is_ready());
        readiness.set_draining();
        readiness.set_ready();
        assert!(!readiness.is_ready());
    }
}

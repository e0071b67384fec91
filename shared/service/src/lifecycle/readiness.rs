use std::sync::Arc;

use tokio::sync::watch;

/// Whether this process should get requests: not before its model is loaded, and not once it is leaving. Clones share
/// one state.
#[derive(Clone, Debug)]
pub struct Readiness {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Starting,
    Ready,
    Draining,
}

impl Readiness {
    /// Not ready yet.
    pub fn new() -> Self {
        Self { state: Arc::new(watch::Sender::new(State::Starting)) }
    }

    /// Ready for requests from now on. Has no effect once draining: a model that finishes loading during shutdown must
    /// not attract requests.
    pub fn set_ready(&self) {
        self.state.send_if_modified(|state| {
            let starting = *state == State::Starting;
            if starting {
                *state = State::Ready;
            }
            starting
        });
    }

    /// Not ready any more, for good.
    pub fn set_draining(&self) {
        self.state.send_replace(State::Draining);
    }

    /// Whether requests are welcome now.
    pub fn is_ready(&self) -> bool {
        *self.state.borrow() == State::Ready
    }

    /// For whoever must hear of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<State> {
        self.state.subscribe()
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

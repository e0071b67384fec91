//! The way back to the engine, which waits for nothing but what arrives here: a session that fell silent without a word
//! would be taken for a slow one, and its request would decode plainly to its end.

use crate::drafting::{Closed, DraftEvent, DraftEventKind, Listener, PlainReason, Reply, SessionId};

/// Tells the engine about one session, in the end that it is over, however that came about.
pub(super) struct Notifier {
    sequence: u64,
    session: SessionId,
    listener: Listener,
    /// What the engine hears last.
    last_words: Option<Closed>,
}

impl Notifier {
    pub(super) fn new(sequence: u64, session: SessionId, listener: Listener) -> Self {
        // Spoken if the session's task panics. The draft may be well: asking it again at once is what must not happen.
        let panicked = Closed { reason: PlainReason::StreamError, dropped_proposal: false, draft_in_doubt: false };
        Self { sequence, session, listener, last_words: Some(panicked) }
    }

    pub(super) fn reply(&self, reply: Reply) {
        self.send(DraftEventKind::Reply(reply));
    }

    /// The session is over; `None` if the engine ended it.
    pub(super) fn end(mut self, closed: Option<Closed>) {
        self.last_words = closed;
    }

    fn send(&self, kind: DraftEventKind) {
        (self.listener)(DraftEvent { sequence: self.sequence, session: self.session, kind });
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(closed) = self.last_words.take() {
            self.send(DraftEventKind::Closed(closed));
        }
    }
}

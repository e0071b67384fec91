//! What it means for a session, and for its draft, that something went wrong.

use specfleet_protocol::status::Reason;
use tonic::{Code, Status};

use crate::drafting::{Closed, PlainReason};

/// Why the conversation ended early.
pub(super) struct Failure {
    pub(super) closed: Closed,
    pub(super) detail: String,
}

impl Failure {
    /// What a status from the draft means for the session and for the draft.
    pub(super) fn of_status(status: Status) -> Self {
        let detail = format!("{}: {}", status.code(), status.message());
        if Reason::of(&status) == Some(Reason::VersionMismatch) {
            return Self::of_version(detail, false);
        }
        // The process is gone, or its words do not arrive. Whatever else it says is about this very session: it is full,
        // or cannot serve this request, and others must not lose their draft for that.
        let draft_in_doubt = match status.code() {
            Code::Unavailable | Code::Unknown | Code::Cancelled => true,
            Code::Internal => Reason::of(&status).is_none(),
            _ => false,
        };
        Self { closed: Closed { reason: PlainReason::StreamError, dropped_proposal: false, draft_in_doubt }, detail }
    }

    pub(super) fn of_stream(detail: impl Into<String>) -> Self {
        let closed = Closed { reason: PlainReason::StreamError, dropped_proposal: false, draft_in_doubt: true };
        Self { closed, detail: detail.into() }
    }

    pub(super) fn of_version(detail: String, dropped_proposal: bool) -> Self {
        Self { closed: Closed { reason: PlainReason::VersionMismatch, dropped_proposal, draft_in_doubt: true }, detail }
    }

    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        let closed = Closed { reason: PlainReason::Malformed, dropped_proposal: true, draft_in_doubt: true };
        Self { closed, detail: detail.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use specfleet_protocol::status;

    use super::*;

    #[test]
    fn only_a_peer_that_is_gone_or_garbled_is_doubted() {
        let doubts = |status: Status| Failure::of_status(status).closed.draft_in_doubt;
        for code in [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal] {
            assert!(doubts(Status::new(code, "connection reset")), "{code}");
        }
        assert!(doubts(status::draining()));
        for refused in [
            status::model_failed("a row is not a number"),
            status::session_evicted(),
            status::context_length(10, 8),
            status::deadline(Duration::from_secs(1)),
            Status::out_of_range("message too large"),
            Status::resource_exhausted("message too large"),
        ] {
            assert!(!doubts(refused.clone()), "{refused:?}");
        }
    }
}

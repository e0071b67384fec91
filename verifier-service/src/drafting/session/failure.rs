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
        // Full, or unable to serve this very request: asking for another session of it would meet the same answer.
        let about_this_session = matches!(
            status.code(),
            Code::ResourceExhausted | Code::InvalidArgument | Code::FailedPrecondition | Code::DeadlineExceeded
        );
        let draft_in_doubt = !about_this_session;
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

//! The closed list of reasons, and the gRPC code of each.

use tonic::{Code, Status};
use tonic_types::StatusExt;

/// `ErrorInfo.domain` of every status made here.
pub const DOMAIN: &str = "specfleet";

/// Why a call failed, in the form that a program can act on: `ErrorInfo.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The request breaks a rule written in the protos.
    InvalidArgument,
    /// Prompt and output do not fit the model's context.
    ContextLength,
    /// The pin is not the version served.
    VersionMismatch,
    /// The message is about another prefix than the one that the session holds.
    PrefixMismatch,
    /// The session made room for others.
    SessionEvicted,
    /// No draft of the required version is ready.
    DraftUnavailable,
    /// No room for another request.
    Overloaded,
    /// The process is shutting down.
    Draining,
    /// The model failed for this request, for example with a non-finite logit.
    ModelFailed,
    /// The request's time ran out.
    Deadline,
}

impl Reason {
    /// Every reason, in the order of the enum.
    pub const ALL: [Self; 10] = [
        Self::InvalidArgument,
        Self::ContextLength,
        Self::VersionMismatch,
        Self::PrefixMismatch,
        Self::SessionEvicted,
        Self::DraftUnavailable,
        Self::Overloaded,
        Self::Draining,
        Self::ModelFailed,
        Self::Deadline,
    ];

    /// The text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::ContextLength => "CONTEXT_LENGTH",
            Self::VersionMismatch => "VERSION_MISMATCH",
            Self::PrefixMismatch => "PREFIX_MISMATCH",
            Self::SessionEvicted => "SESSION_EVICTED",
            Self::DraftUnavailable => "DRAFT_UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::Draining => "DRAINING",
            Self::ModelFailed => "MODEL_FAILED",
            Self::Deadline => "DEADLINE",
        }
    }

    /// The gRPC code that goes with it.
    pub const fn code(self) -> Code {
        match self {
            Self::InvalidArgument | Self::ContextLength => Code::InvalidArgument,
            Self::VersionMismatch | Self::PrefixMismatch | Self::DraftUnavailable => Code::FailedPrecondition,
            Self::SessionEvicted | Self::Overloaded => Code::ResourceExhausted,
            Self::Draining => Code::Unavailable,
            Self::ModelFailed => Code::Internal,
            Self::Deadline => Code::DeadlineExceeded,
        }
    }

    /// The reason in a status that came from a peer; `None` when it has none of ours.
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        if info.domain != DOMAIN {
            return None;
        }
        Self::ALL.into_iter().find(|reason| reason.as_str() == info.reason)
    }
}

//! Every way a request can fail, and the one table from these to gRPC statuses.
//!
//! | error | gRPC code | reason |
//! |---|---|---|
//! | [`Invalid`](Error::Invalid) | INVALID_ARGUMENT | `INVALID_ARGUMENT` |
//! | [`ContextLength`](Error::ContextLength) | INVALID_ARGUMENT | `CONTEXT_LENGTH` |
//! | [`DraftUnavailable`](Error::DraftUnavailable) | FAILED_PRECONDITION | `DRAFT_UNAVAILABLE` |
//! | [`Overloaded`](Error::Overloaded), [`SlowClient`](Error::SlowClient), [`Untaken`](Error::Untaken) | RESOURCE_EXHAUSTED | `OVERLOADED` |
//! | [`Draining`](Error::Draining) | UNAVAILABLE | `DRAINING` |
//! | [`Deadline`](Error::Deadline) | DEADLINE_EXCEEDED | `DEADLINE` |
//! | [`ModelFailed`](Error::ModelFailed) | INTERNAL | `MODEL_FAILED` |

use std::time::Duration;

use specfleet_protocol::status::{self, Reason, Refusal};
use tonic::Status;

/// When a client should try again that read too slowly, or that met a process on its way out.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request ended without its last token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request breaks rules; all of them are listed.
    #[error("the request has {} bad {}: {}", .0.len(), if .0.len() == 1 { "field" } else { "fields" }, join(.0))]
    Invalid(Vec<Violation>),
    /// The prompt leaves no room for a token.
    #[error("a prompt of {n_tokens} tokens or more does not fit a context of {context_length} with room for a token")]
    ContextLength {
        /// Tokens of the prompt, at least.
        n_tokens: usize,
        /// Positions that there are.
        context_length: usize,
    },
    /// The request insists on a draft version that is not ready.
    #[error("no draft of version {pin:?} is ready")]
    DraftUnavailable {
        /// The version asked for.
        pin: String,
    },
    /// There is no room for the request now.
    #[error("no room: {cause}; try again in {:.1} s", retry_after.as_secs_f64())]
    Overloaded {
        /// What there is too much of.
        cause: Overload,
        /// When there is likely to be room, as measured.
        retry_after: Duration,
    },
    /// The client reads more slowly than the text comes.
    #[error("the client has left {n_bytes} bytes unread, and {most} are kept; read faster")]
    SlowClient {
        /// What waits for it.
        n_bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The request had ended, and the client has taken nothing of what was left for it.
    #[error("the client has taken nothing for {waited:?}, so what was left is dropped; read faster")]
    Untaken {
        /// How long the client was waited for.
        waited: Duration,
    },
    /// The process is on its way out.
    #[error("the service is shutting down; ask another instance")]
    Draining,
    /// The request's own time ran out.
    #[error("not finished within the {0:?} that the request allows")]
    Deadline(Duration),
    /// The target failed for this request.
    #[error("the target model failed for this request: {0}")]
    ModelFailed(String),
}

/// What there is too much of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// Every place is taken.
    #[error("{n_requests} requests may run or wait at a time, each continuation of a prompt counted")]
    Places {
        /// The limit.
        n_requests: usize,
    },
    /// The queue is longer than it is worth waiting for.
    #[error(
        "at the present pace a request waits for {:.1} s, and this one may for {:.1} s",
        wait.as_secs_f64(), allowed.as_secs_f64()
    )]
    Queue {
        /// How long the queue is likely to last.
        wait: Duration,
        /// As the server is configured, or what the request's own time leaves.
        allowed: Duration,
    },
    /// As many outputs of a given form as there is memory for.
    #[error("{n_grammars} requests with a grammar may run or wait at a time, each continuation of a prompt counted")]
    Grammars {
        /// The limit.
        n_grammars: usize,
    },
    /// Too many large bodies, or texts to be tokenised, at a time.
    #[error("too many long texts are worked on at this moment")]
    Texts,
}

/// Refusals travel in HTTP trailers, of which most peers take 8 or 16 KiB; a longer one would arrive as a broken stream.
const LONGEST_DESCRIPTION: usize = 256;

/// One field of a request that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {description}")]
pub struct Violation {
    /// Path of the field.
    pub field: String,
    /// What it holds and what it may hold.
    pub description: String,
}

impl Violation {
    pub(crate) fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: shortened(&description.into(), LONGEST_DESCRIPTION) }
    }
}

impl Error {
    /// The value of the `outcome` label of the requests metric.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::ContextLength { .. } => "invalid",
            Self::DraftUnavailable { .. } => "draft_unavailable",
            Self::Overloaded { .. } => "overloaded",
            Self::SlowClient { .. } | Self::Untaken { .. } => "slow_client",
            Self::Draining => "draining",
            Self::Deadline(_) => "deadline",
            Self::ModelFailed(_) => "model_failed",
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Invalid(violations) => (violations.into_iter())
                .fold(Refusal::new(Reason::InvalidArgument, message), |refusal, violation| {
                    refusal.field(violation.field, violation.description)
                })
                .into(),
            Error::ContextLength { n_tokens, context_length } => status::context_length(n_tokens, context_length),
            Error::DraftUnavailable { pin } => status::draft_unavailable(&pin),
            Error::Overloaded { retry_after, .. } => status::overloaded(message, retry_after),
            Error::SlowClient { .. } | Error::Untaken { .. } => status::overloaded(message, RETRY_AFTER),
            Error::Draining => status::draining(),
            Error::Deadline(allowed) => status::deadline(allowed),
            Error::ModelFailed(_) => status::model_failed(message),
        }
    }
}

fn join(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The first `n_chars` of a text that may be of any length.
pub(crate) fn shortened(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

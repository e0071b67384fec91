//! A caller that must act on a failure (fall back, re-open, back off, give up) cannot parse prose. So every status that
//! the services make carries a `google.rpc.ErrorInfo` with a [`Reason`], and this is the only place that makes them.
//!
//! | reason | gRPC code | what the caller should do |
//! |---|---|---|
//! | `INVALID_ARGUMENT` | INVALID_ARGUMENT | fix the request; `BadRequest` names each field |
//! | `CONTEXT_LENGTH` | INVALID_ARGUMENT | shorten the prompt |
//! | `VERSION_MISMATCH` | FAILED_PRECONDITION | pin the served version, or go elsewhere |
//! | `PREFIX_MISMATCH` | FAILED_PRECONDITION | open a new session with the whole prefix |
//! | `DRAFT_UNAVAILABLE` | FAILED_PRECONDITION | drop `require_pin`, or wait for that version |
//! | `SESSION_EVICTED` | RESOURCE_EXHAUSTED | open a new session |
//! | `OVERLOADED` | RESOURCE_EXHAUSTED | try again after the `RetryInfo` delay |
//! | `DRAINING` | UNAVAILABLE | another instance, or the next one |
//! | `MODEL_FAILED` | INTERNAL | this request is lost, others are not |
//! | `DEADLINE` | DEADLINE_EXCEEDED | ask with more time |

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Characters of a caller's text in a status: twice a version id.
const MOST_REPEATED: usize = 128;

mod reason;

pub use reason::{DOMAIN, Reason};

/// A failure on its way to become a [`Status`].
///
/// ```
/// use specfleet_protocol::status::{Reason, Refusal};
///
/// let status: tonic::Status = Refusal::new(Reason::InvalidArgument, "the request has 2 bad fields")
///     .field("sampling.top_p", "is 0, must be in (0, 1]")
///     .field("max_tokens", "is 0, must be at least 1")
///     .into();
/// assert_eq!(status.code(), tonic::Code::InvalidArgument);
/// assert_eq!(Reason::of(&status), Some(Reason::InvalidArgument));
/// ```
#[derive(Clone, Debug)]
pub struct Refusal {
    reason: Reason,
    message: String,
    metadata: HashMap<String, String>,
    fields: Vec<(String, String)>,
    retry_after: Option<Duration>,
}

impl Refusal {
    /// `message` is for people: what was wrong, what was expected, what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), metadata: HashMap::new(), fields: Vec::new(), retry_after: None }
    }

    /// Names a request field that is wrong, and what is wrong with it; travels as `google.rpc.BadRequest`.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>, description: impl Into<String>) -> Self {
        self.fields.push((path.into(), description.into()));
        self
    }

    /// Adds a fact for machines to the `ErrorInfo`, for example both sides of a mismatch.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// When trying again makes sense; travels as `google.rpc.RetryInfo`.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut details = ErrorDetails::with_error_info(refusal.reason.as_str(), DOMAIN, refusal.metadata);
        for (path, description) in refusal.fields {
            details.add_bad_request_violation(path, description);
        }
        if refusal.retry_after.is_some() {
            details.set_retry_info(refusal.retry_after);
        }
        Status::with_error_details(refusal.reason.code(), refusal.message, details)
    }
}

/// One wrong field of a request.
pub fn invalid_argument(field: &str, description: impl Into<String>) -> Status {
    let description = description.into();
    Refusal::new(Reason::InvalidArgument, format!("{field}: {description}")).field(field, description).into()
}

/// A pin that is not the version served.
pub fn version_mismatch(pin: &str, served: &str) -> Status {
    let pin = readable(pin);
    let message = format!(
        "pinned to version {pin:?}, but this process serves {served:?}; pin that one, or ask the process that serves \
         the pinned one"
    );
    Refusal::new(Reason::VersionMismatch, message).metadata("pin", pin).metadata("served", served).into()
}

/// An advance whose base is not the prefix that the session holds.
pub fn prefix_mismatch(held: Prefix, sent: Prefix) -> Status {
    let message = format!(
        "the session holds a prefix of {} tokens with digest {:016x}, the message speaks about {} tokens with digest \
         {:016x}; open a new session with the whole prefix",
        held.length, held.digest, sent.length, sent.digest
    );
    Refusal::new(Reason::PrefixMismatch, message).into()
}

/// Length and digest of a committed prefix, as messages carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Tokens in it.
    pub length: u32,
    /// [`PrefixDigest::value`](crate::PrefixDigest::value) of it.
    pub digest: u64,
}

/// The session was closed to make room for others.
pub fn session_evicted() -> Status {
    let message = "the session was the least recently used one when memory ran out; open a new one";
    Refusal::new(Reason::SessionEvicted, message).into()
}

/// More tokens than the model has positions.
pub fn context_length(n_tokens: usize, context_length: usize) -> Status {
    let message = format!(
        "{n_tokens} tokens do not fit a context of {context_length} with room for a token to generate; shorten the \
         prompt"
    );
    Refusal::new(Reason::ContextLength, message)
        .metadata("n_tokens", n_tokens.to_string())
        .metadata("context_length", context_length.to_string())
        .into()
}

/// The request insists on a draft version that is not ready.
pub fn draft_unavailable(pin: &str) -> Status {
    let pin = readable(pin);
    let message = format!(
        "no draft of version {pin:?} is ready; ask without require_pin to decode plainly, or pin a version that \
         GetIdentity lists as ready"
    );
    Refusal::new(Reason::DraftUnavailable, message).metadata("pin", pin).into()
}

/// No room for another request.
pub fn overloaded(message: impl Into<String>, retry_after: Duration) -> Status {
    Refusal::new(Reason::Overloaded, message).retry_after(retry_after).into()
}

/// The process is on its way out and takes nothing new.
pub fn draining() -> Status {
    Refusal::new(Reason::Draining, "the service is shutting down; ask another instance").into()
}

/// The model failed for this request alone.
pub fn model_failed(message: impl Into<String>) -> Status {
    Refusal::new(Reason::ModelFailed, message).into()
}

/// The request's own time ran out.
pub fn deadline(allowed: Duration) -> Status {
    let message = format!("not finished within the {allowed:?} that the request allows; allow more time");
    Refusal::new(Reason::Deadline, message).into()
}

/// As much of a caller's text as a status may repeat. Statuses travel as HTTP headers, and peers refuse large ones: the
/// caller would hear of a protocol error instead of its own.
fn readable(text: &str) -> &str {
    text.char_indices().nth(MOST_REPEATED).map_or(text, |(end, _)| &text[..end])
}

/// Whether the same request may succeed elsewhere or later.
pub fn is_retryable(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::ResourceExhausted | Code::Aborted)
}

#[cfg(test)]
mod tests;

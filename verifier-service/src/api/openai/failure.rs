//! Every refusal in the form that clients of this API read: a status, and a body `{"error": {...}}`.
//!
//! | error | status | `code` |
//! |---|---|---|
//! | not JSON, or a field of the wrong type or out of range | 400 | `invalid_value` |
//! | a field that this server knows and cannot honour | 400 | `unsupported_parameter` |
//! | [`Error::ContextLength`] | 400 | `context_length_exceeded` |
//! | another model's name, another path | 404 | `model_not_found`, `not_found` |
//! | [`Error::DraftUnavailable`] | 409 | `draft_unavailable` |
//! | a body that does not arrive | 408 | `body_too_slow` |
//! | a body beyond the limit | 413 | `body_too_large` |
//! | [`Error::Overloaded`] | 429 | `overloaded` |
//! | [`Error::SlowClient`], [`Error::Untaken`] | 429 | `slow_client` |
//! | [`Error::ModelFailed`] | 500 | `model_failed` |
//! | the model is being loaded, [`Error::Draining`] | 503 | `loading`, `draining` |
//! | [`Error::Deadline`] | 504 | `deadline_exceeded` |
//!
//! Clients retry 409, 429 and 5xx by themselves. Where that helps they are told when, and where it cannot help that
//! they should not.

use std::time::Duration;

use axum::{
    Json,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::pieces::Pieces;
use crate::error::{Error, RETRY_AFTER as RETRY_AFTER_DRAINING, Violation};

/// Read by the `openai` package before `retry-after`.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");
/// Read by the `openai` package before the status.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// A model of some hundred megabytes is loaded within seconds.
const RETRY_AFTER_LOADING: Duration = Duration::from_secs(2);

const JSON: (HeaderName, &str) = (CONTENT_TYPE, "application/json");

const INVALID_REQUEST: &str = "invalid_request_error";
const SERVER_ERROR: &str = "server_error";

/// A refusal.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    body: Body,
    /// What was verified before.
    partial: Option<Box<Pieces>>,
    retry: Retry,
}

/// What a client should do about it, where its own rule would be wrong or vague.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    AsUsual,
    After(Duration),
    Never,
}

#[derive(Clone, Debug, Serialize)]
struct Body {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<String>,
    code: &'static str,
}

/// `{"error": ...}`: a response's body, or an event of a stream.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ErrorBody {
    error: Body,
}

impl Failure {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let body = Body { message: message.into(), kind, param: None, code };
        Self { status, body, partial: None, retry: Retry::AsUsual }
    }

    /// A field that cannot be used as it is.
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let failure = Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, "invalid_value", message);
        let param = Some(param.into()).filter(|param| !param.is_empty());
        Self { body: Body { param, ..failure.body }, ..failure }
    }

    /// A field that would change the answer if it were honoured, and is not.
    pub(super) fn unsupported(param: &str, message: String) -> Self {
        let failure = Self::invalid(param, message);
        Self { body: Body { code: "unsupported_parameter", ..failure.body }, ..failure }
    }

    pub(super) fn unknown_model(asked: &str, served: &str) -> Self {
        let message = format!("the model {asked:?} is not served here; this server has {served:?}");
        let failure = Self::new(StatusCode::NOT_FOUND, INVALID_REQUEST, "model_not_found", message);
        Self { body: Body { param: Some("model".to_owned()), ..failure.body }, ..failure }
    }

    pub(super) fn not_found(path: &str) -> Self {
        let message = format!("there is nothing at {path}; GET /v1/models shows what is served");
        Self::new(StatusCode::NOT_FOUND, INVALID_REQUEST, "not_found", message)
    }

    pub(super) fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("{path} cannot be asked with {method}");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID_REQUEST, "method_not_allowed", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes, which is all that is read");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID_REQUEST, "body_too_large", message)
    }

    pub(super) fn slow_body(limit: Duration) -> Self {
        let message = format!("the body has not arrived within {limit:?}, which is all that is waited for");
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID_REQUEST, "body_too_slow", message)
    }

    pub(super) fn loading() -> Self {
        let message = "the model is being loaded; try again soon";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER_ERROR, "loading", message)
            .retrying(Retry::After(RETRY_AFTER_LOADING))
    }

    /// Brings along what was verified before.
    pub(super) fn with_partial(self, partial: Pieces) -> Self {
        Self { partial: Some(Box::new(partial)), ..self }
    }

    fn retrying(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// What the last event of a stream that fails says.
    pub(super) fn into_event(self) -> ErrorBody {
        ErrorBody { error: self.body }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let error = with_names_of_this_api(error);
        let message = error.to_string();
        match error {
            Error::Invalid(violations) => {
                let param = violations.into_iter().next().map(|violation| violation.field);
                Self::invalid(param.unwrap_or_default(), message)
            }
            Error::ContextLength { .. } => {
                Self::new(StatusCode::BAD_REQUEST, INVALID_REQUEST, "context_length_exceeded", message)
            }
            Error::DraftUnavailable { .. } => {
                Self::new(StatusCode::CONFLICT, INVALID_REQUEST, "draft_unavailable", message)
            }
            Error::Overloaded { retry_after, .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "overloaded", message)
                    .retrying(Retry::After(retry_after))
            }
            Error::SlowClient { .. } | Error::Untaken { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "slow_client", message)
            }
            Error::Draining => Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER_ERROR, "draining", message)
                .retrying(Retry::After(RETRY_AFTER_DRAINING)),
            Error::Deadline(_) => {
                // A second attempt within the same time would end as the first.
                Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout_error", "deadline_exceeded", message)
                    .retrying(Retry::Never)
            }
            Error::ModelFailed(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER_ERROR, "model_failed", message)
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Self { status, body, partial, retry } = self;
        let error = ErrorBody { error: body };
        let mut response = match partial.map(|partial| partial.within(&error, "partial")) {
            Some(Ok(pieces)) => (status, [JSON], pieces.into_body()).into_response(),
            _ => (status, Json(error)).into_response(),
        };
        let headers = response.headers_mut();
        match retry {
            Retry::AsUsual => {}
            Retry::After(duration) => {
                headers.insert(RETRY_AFTER, (duration.as_millis().div_ceil(1000).max(1) as u64).into());
                headers.insert(RETRY_AFTER_MS, (duration.as_millis() as u64).into());
            }
            Retry::Never => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
        }
        response
    }
}

/// The rules name the fields of the request's one form, which groups some of them; here they have the names that the
/// client wrote.
fn with_names_of_this_api(error: Error) -> Error {
    let Error::Invalid(violations) = error else { return error };
    let renamed = |violation: Violation| {
        let field = match violation.field.as_str() {
            "text" | "token_ids.ids" => "prompt",
            field => {
                let groups = ["chat.", "sampling."];
                groups.into_iter().find_map(|group| field.strip_prefix(group)).unwrap_or(field)
            }
        };
        Violation { field: field.to_owned(), ..violation }
    };
    Error::Invalid(violations.into_iter().map(renamed).collect())
}

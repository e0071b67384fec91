//! How the engine's failures look on the wire.

use std::time::Duration;

use specfleet_protocol::status;
use tonic::Status;

use crate::engine::Error;

/// A round or two: by then a session has become idle and can make room.
const RETRY_AFTER: Duration = Duration::from_millis(100);

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::TooLong { n_tokens, limit } => status::context_length(n_tokens, limit),
            Error::PrefixMismatch { held, sent } => status::prefix_mismatch(held, sent),
            Error::Evicted => status::session_evicted(),
            Error::Full(message) => status::overloaded(message, RETRY_AFTER),
            Error::Model(_) => status::model_failed(error.to_string()),
            Error::Stopped => status::draining(),
        }
    }
}

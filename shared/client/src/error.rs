//! What can go wrong between a client and a service, in words that say what to do next.

use std::fmt;

use tonic::Status;

mod refusal;

pub use refusal::{Refusal, Violation};

/// Why a request brought no answer, or only part of one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not an address one can connect to.
    #[error(transparent)]
    Endpoint(#[from] specfleet_protocol::channel::Error),
    /// Nothing accepts connections there.
    #[error("no {service} answers at {endpoint}: {reason}\n{}", service.how_to_start())]
    Unreachable {
        /// Which service was looked for.
        service: Service,
        /// Where.
        endpoint: String,
        /// What the connection attempt said.
        reason: String,
    },
    /// The connection broke after it had been made.
    #[error(
        "lost the connection to the {service} at {endpoint}: {reason}\nSee whether it still runs; its log says why it stopped."
    )]
    ConnectionLost {
        /// Which service it was.
        service: Service,
        /// Where.
        endpoint: String,
        /// What the transport said.
        reason: String,
    },
    /// The service answered with an error status.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The verifier's messages do not follow the contract.
    #[error("the verifier broke the rules of its stream: {0}\nClient and verifier are probably of different versions.")]
    Sequence(&'static str),
}

/// The two services a client can ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Runs the target and streams verified tokens.
    Verifier,
    /// Proposes tokens.
    Draft,
}

impl Service {
    fn how_to_start(self) -> &'static str {
        match self {
            Self::Verifier => {
                "Start both services with `deploy/local/up`, or name another address with --endpoint or SPECFLEET_VERIFIER."
            }
            Self::Draft => "Start both services with `deploy/local/up`, or name another address.",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Verifier => "verifier-service",
            Self::Draft => "draft-service",
        })
    }
}

impl Error {
    /// A status that came from the service is a refusal; one that the transport made up is a lost connection.
    pub(crate) fn from_status(service: Service, endpoint: &str, status: &Status) -> Self {
        if std::error::Error::source(status).is_some() {
            let reason = innermost(status);
            return Self::ConnectionLost { service, endpoint: endpoint.to_owned(), reason };
        }
        Self::Refused(Box::new(Refusal::from_status(service, status)))
    }
}

/// The last error of a chain of sources: "Connection refused" rather than "transport error".
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

//! A gRPC status with its details, as a person wants to read it.

use std::fmt;
use std::time::Duration;

use specfleet_protocol::status::Reason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::error::Service;

/// An error status that a service sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Who sent it.
    pub service: Service,
    /// The gRPC code.
    pub code: Code,
    /// The service's own words.
    pub message: String,
    /// Why, for a program to act on; absent when the answer came from something that is not specfleet.
    pub reason: Option<Reason>,
    /// Each field of the request that was wrong.
    pub violations: Vec<Violation>,
    /// When trying again makes sense.
    pub retry_after: Option<Duration>,
}

/// One field of a request and what is wrong with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The field's path, for example `sampling.top_p`.
    pub field: String,
    /// What was found and what is allowed.
    pub description: String,
}

impl Refusal {
    /// Reads a status and its details.
    pub fn from_status(service: Service, status: &Status) -> Self {
        let details = status.get_error_details();
        let violations = details.bad_request().map(|bad_request| &bad_request.field_violations[..]).unwrap_or_default();
        let violation = |wire: &tonic_types::FieldViolation| Violation {
            field: wire.field.clone(),
            description: wire.description.clone(),
        };
        Self {
            service,
            code: status.code(),
            message: status.message().to_owned(),
            reason: Reason::of(status),
            violations: violations.iter().map(violation).collect(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        }
    }

    /// What to do about it, as far as the service's message cannot know.
    pub fn advice(&self) -> Option<String> {
        let advice = match (self.reason, self.code) {
            (Some(Reason::VersionMismatch | Reason::DraftUnavailable), _) => {
                "`specctl identity` lists the versions that are served."
            }
            (Some(Reason::ContextLength), _) => "`specctl identity` shows the context length.",
            (Some(Reason::Overloaded), _) => return Some(self.when_to_retry()),
            (Some(Reason::ModelFailed), _) => "Only this request failed; the service's log has the cause.",
            (None, Code::Unimplemented) => {
                "The service is of another version, or the address belongs to something else."
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }

    fn when_to_retry(&self) -> String {
        match self.retry_after {
            Some(delay) => format!("Try again in {:.1} s, or with fewer requests at once.", delay.as_secs_f64()),
            None => "Try again a little later, or with fewer requests at once.".to_owned(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the {} refused: {}", self.service, self.message)?;
        match self.reason {
            Some(reason) => write!(formatter, " ({})", reason.as_str())?,
            None => write!(formatter, " ({})", self.code.description())?,
        }
        for violation in self.violations.iter().filter(|violation| !self.message.contains(&violation.description)) {
            write!(formatter, "\n  {}: {}", violation.field, violation.description)?;
        }
        match self.advice() {
            Some(advice) => write!(formatter, "\n{advice}"),
            None => Ok(()),
        }
    }
}

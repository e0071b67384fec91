//! The details of an error status, as clients and the verifier read them.

use std::time::Duration;

use prost::bytes::Bytes;
use specfleet_client::Service;
use specfleet_protocol::status::{Reason, Refusal, is_retryable};
use tonic::{Code, Status};

use crate::{Allowance, Answer, Decode, Target};

pub(super) const TARGET: Target = Target {
    name: "status",
    allowance: Allowance { fixed: 16 << 10, per_byte: 256 },
    seeds,
    start: || Box::new(decode) as Decode,
};

/// A code, and the details.
fn decode(bytes: &[u8]) -> Answer {
    let Some((&code, details)) = bytes.split_first() else { return Answer::Refused };
    let details = Bytes::copy_from_slice(details);
    let status = Status::with_details(Code::from_i32(code.into()), "a message", details);
    let refusal = specfleet_client::Refusal::from_status(Service::Verifier, &status);
    assert_eq!(refusal.reason, Reason::of(&status));
    assert!(!refusal.to_string().is_empty());
    let _ = (refusal.advice(), is_retryable(&status));
    if refusal.reason.is_some() { Answer::Accepted } else { Answer::Refused }
}

/// With one entry of metadata each: several would be written in another order in every run.
fn seeds() -> Vec<Vec<u8>> {
    let statuses = Reason::ALL.map(|reason| {
        let refusal = Refusal::new(reason, "a message").metadata("pin", "a".repeat(64));
        let refusal = refusal.field("sampling.top_p", "is 0, must be in (0, 1]").field("max_tokens", "is 0");
        Status::from(refusal.retry_after(Duration::from_millis(1500)))
    });
    statuses.iter().map(|status| [&[status.code() as u8][..], status.details()].concat()).collect()
}

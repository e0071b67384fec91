//! The details of an error status, as clients and the verifier read them.

use std::time::Duration;

use prost::bytes::Bytes;
use specfleet_client::{Refusal, Service};
use specfleet_protocol::status::{self, Prefix, Reason, invalid_argument, is_retryable};
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
    let refusal = Refusal::from_status(Service::Verifier, &status);
    assert_eq!(refusal.reason, Reason::of(&status));
    assert!(!refusal.to_string().is_empty());
    let _ = (refusal.advice(), is_retryable(&status));
    if refusal.reason.is_some() { Answer::Accepted } else { Answer::Refused }
}

fn seeds() -> Vec<Vec<u8>> {
    let prefix = Prefix { length: 3, digest: 4 };
    let statuses = [
        invalid_argument("sampling.top_p", "is 0, must be in (0, 1]"),
        status::version_mismatch(&"a".repeat(64), &"b".repeat(64)),
        status::prefix_mismatch(prefix, prefix),
        status::session_evicted(),
        status::context_length(5000, 4096),
        status::draft_unavailable(&"c".repeat(64)),
        status::overloaded("every session is drafting", Duration::from_millis(100)),
        status::draining(),
        status::model_failed("NaN"),
        status::deadline(Duration::from_secs(1)),
    ];
    statuses.iter().map(|status| [&[status.code() as u8][..], status.details()].concat()).collect()
}

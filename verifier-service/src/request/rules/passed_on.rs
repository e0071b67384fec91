//! What a client writes travels on to drafts, together with the prompt and in a message whose size
//! [`MessageLimits`](specfleet_protocol::limits::MessageLimits) bounds. So each part of it has a bound of its own: a draft
//! must never be sent what it has to refuse.

use specfleet_protocol::v1;

use crate::error::{Violation, shortened};

pub(crate) const MAX_REQUEST_ID_BYTES: usize = 128;
pub(super) const MAX_LOGIT_BIASES: usize = 4096;
pub(super) const MAX_END_TOKENS: usize = 256;
/// Not passed on, but looked through for each token.
const MAX_SPELLED_TOKENS: usize = 64;
/// A version id is a SHA-256 in hexadecimal.
pub(super) const VERSION_ID_DIGITS: usize = 64;

pub(super) fn check(wire: &v1::GenerateRequest, violations: &mut Vec<Violation>) {
    let (n_ends, n_biases) =
        (wire.sampling.as_ref()).map_or((0, 0), |sampling| (sampling.end_token_ids.len(), sampling.logit_bias.len()));
    for (field, unit, length, most) in [
        ("request_id", "bytes", wire.request_id.len(), MAX_REQUEST_ID_BYTES),
        ("spelled_token_ids", "entries", wire.spelled_token_ids.len(), MAX_SPELLED_TOKENS),
        ("stop_token_ids", "entries", wire.stop_token_ids.len(), MAX_END_TOKENS),
        ("sampling.end_token_ids", "entries", n_ends, MAX_END_TOKENS),
        ("sampling.logit_bias", "entries", n_biases, MAX_LOGIT_BIASES),
    ] {
        if length > most {
            violations.push(Violation::new(field, format!("has {length} {unit}, allowed: at most {most}")));
        }
    }
    let pin = wire.speculation.as_ref().map_or("", |speculation| &speculation.pin);
    if !pin.is_empty() && !is_version_id(pin) {
        let pin = shortened(pin, VERSION_ID_DIGITS);
        let description = format!("is {pin:?}, allowed: a version id, {VERSION_ID_DIGITS} lower-case hex digits");
        violations.push(Violation::new("speculation.pin", description));
    }
}

fn is_version_id(text: &str) -> bool {
    text.len() == VERSION_ID_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

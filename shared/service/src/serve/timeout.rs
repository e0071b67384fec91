//! `grpc-timeout`: how long the caller is willing to wait.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

const HEADER: &str = "grpc-timeout";
/// The specification allows no more.
const MAX_DIGITS: usize = 8;

/// When the caller stops waiting; in the extensions of a request that has a `grpc-timeout`. The server ends the call
/// then by itself. Handlers read this to pass what is left on to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The moment.
    pub at: Instant,
    /// How long it was when the request arrived.
    pub allowed: Duration,
}

impl Deadline {
    /// `None` without the header, or with one that is not in the specification's form: such a caller waits for ever.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let allowed = parse(headers.get(HEADER)?.to_str().ok()?)?;
        let at = Instant::now().checked_add(allowed)?;
        Some(Self { at, allowed })
    }
}

/// 1 to 8 digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > MAX_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_the_specification() {
        let cases = [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("99999999m", Some(Duration::from_millis(99_999_999))),
            ("5u", Some(Duration::from_micros(5))),
            ("6n", Some(Duration::from_nanos(6))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("+1S", None),
            ("1", None),
            ("1s", None),
            ("1é", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }

    proptest! {
        /// A header is whatever a caller writes; what is read of it can be added to the present.
        #[test]
        fn any_header_is_a_deadline_or_none(text in "[0-9]{0,9}[HMSmun]?|.{0,12}") {
            let header = http::HeaderValue::from_bytes(text.as_bytes());
            let headers: HeaderMap = header.into_iter().map(|value| (http::HeaderName::from_static(HEADER), value)).collect();
            if let Some(deadline) = Deadline::of(&headers) {
                prop_assert!(deadline.allowed <= Duration::from_secs(99_999_999 * 3600));
                prop_assert_eq!(Some(deadline.allowed), parse(&text));
            }
        }
    }
}

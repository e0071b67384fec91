//! How long a caller of the HTTP API waits, and how it calls its call.

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Full;

use super::Door;
use crate::{Answer, targets::http::face};

const TIMEOUT: &str = "request-timeout-ms";
const NAME: &str = "x-request-id";
/// A name of so many bytes may be kept.
const SHORT: usize = 100;

pub(super) fn door() -> Door {
    let mut face = face();
    Box::new(move |values| {
        let mut request = Request::post("/tokenize");
        for (name, value) in [TIMEOUT, NAME].into_iter().zip(values) {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from_static(br#"{"prompt":"abc"}"#));
        let response = face(request.body(body).expect("a request that HTTP allows"));
        let is_taken = match response.status() {
            StatusCode::OK | StatusCode::GATEWAY_TIMEOUT => true,
            StatusCode::BAD_REQUEST => false,
            status => panic!("{values:?} are answered with {status}"),
        };
        if let Some(timeout) = values.first() {
            check_timeout(timeout, is_taken);
        }
        let name = response.headers().get(NAME).expect("every answer has a name");
        assert!(!name.is_empty() && is_printable(name), "the answer is called {name:?}");
        let given = values.get(1);
        let is_kept = given == Some(name);
        if let Some(given) = given.filter(|given| (1..=SHORT).contains(&given.len()) && is_printable(given)) {
            assert!(is_kept, "a call is called {given:?}, and its answer {name:?}");
        }
        if is_taken && is_kept { Answer::Accepted } else { Answer::Refused }
    })
}

/// Whole milliseconds, of which there is at least one.
fn check_timeout(value: &HeaderValue, is_taken: bool) {
    let digits = value.as_bytes();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let is_positive = digits.iter().any(|digit| *digit != b'0');
    if is_number && is_positive && digits.len() <= 9 {
        assert!(is_taken, "{value:?} is refused");
    }
    if is_taken {
        let is_spelling = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b'+');
        assert!(is_positive && digits.iter().all(is_spelling), "{value:?} is taken for a time");
    }
}

fn is_printable(name: &HeaderValue) -> bool {
    name.as_bytes().iter().all(u8::is_ascii_graphic)
}

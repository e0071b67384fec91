//! Every answer has a name, refusals too: the caller's own, so that it finds the call in our logs by what is in its own.
//!
//! The name travels to drafts, into logs and into the header of the answer, so it has to be short and printable. One that
//! is not is no reason to refuse a call: a fresh one takes its place, and the answer says which.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use crate::request::MAX_REQUEST_ID_BYTES;

pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Each prompt of a call is a request with a name of its own: the call's, and the prompt's number.
const LONGEST_SUFFIX: usize = "-1000000".len();

/// The name of a call; in the extensions of its request.
#[derive(Clone, Debug)]
pub(super) struct RequestId(pub(super) String);

/// The name of the `index`-th of `n` prompts of a call.
pub(super) fn of_prompt(id: &str, index: usize, n: usize) -> String {
    match n {
        1 => id.to_owned(),
        _ => format!("{id}-{index}"),
    }
}

/// A layer around everything: names the call, and writes the name on the answer.
pub(super) async fn name(mut request: Request, next: Next) -> Response {
    let id = given(request.headers()).unwrap_or_else(|| Uuid::new_v4().to_string());
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, id);
    }
    response
}

/// The caller's name for the call, if it is of use.
fn given(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(HEADER)?.as_bytes();
    let is_usable =
        (1..=MAX_REQUEST_ID_BYTES - LONGEST_SUFFIX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    is_usable.then(|| String::from_utf8_lossy(id).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(id: &[u8]) -> Option<String> {
        given(&HeaderMap::from_iter([(HEADER, HeaderValue::from_bytes(id).unwrap())]))
    }

    #[test]
    fn a_name_is_taken_if_it_is_short_and_printable() {
        let longest = "x".repeat(MAX_REQUEST_ID_BYTES - LONGEST_SUFFIX);
        for id in ["a", "0b5ad3c7-7f49-4dc1-9d26-6b24e83d3a5f", "a/b:c=d", &longest] {
            assert_eq!(read(id.as_bytes()).as_deref(), Some(id));
        }
        for id in [&b""[..], b"a b", b"a\tb", "é".as_bytes(), b"\xff", format!("{longest}x").as_bytes()] {
            assert_eq!(read(id), None, "{id:?}");
        }
        assert_eq!(given(&HeaderMap::new()), None);
    }

    #[test]
    fn the_longest_name_with_the_number_of_a_prompt_is_no_longer_than_a_request_may_have() {
        let id = "x".repeat(MAX_REQUEST_ID_BYTES - LONGEST_SUFFIX);
        assert!(of_prompt(&id, 999_999, 1_000_000).len() <= MAX_REQUEST_ID_BYTES);
        assert_eq!(of_prompt(&id, 0, 1), id);
    }
}

//! A gRPC service called with bytes instead of messages: all that stands between a peer's bytes and a handler is on the way,
//! except for HTTP/2 itself.

use std::convert::Infallible;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use specfleet_protocol::status::Reason;
use tonic::{Code, Status, body::Body};
use tower::{Service, ServiceExt};

/// A flag (compressed or not) and a length.
const FRAME_HEADER: usize = 1 + 4;

/// A message as it stands in the body of a call.
pub fn frame(message: &impl Message) -> Vec<u8> {
    framed(&message.encode_to_vec())
}

/// What should be a message, as it stands in the body of a call.
pub fn framed(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("inputs are small");
    [&[0][..], &length.to_be_bytes(), content].concat()
}

/// How a call ended.
#[derive(Debug)]
pub struct Reply {
    /// The messages that came before the end.
    pub messages: Vec<Bytes>,
    /// Its status.
    pub status: Status,
}

/// Calls a method with this request body.
///
/// # Panics
/// If the answer is not one that gRPC allows.
pub async fn call<S>(service: S, path: &str, body: Vec<u8>) -> Reply
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let request = Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(Bytes::from(body))))
        .expect("a request that HTTP allows");
    let Ok(response) = service.oneshot(request).await;
    let in_headers = Status::from_header_map(response.headers());
    let collected = response.into_body().collect().await.expect("a body that ends with trailers");
    let in_trailers = collected.trailers().and_then(Status::from_header_map);
    let status = in_trailers.or(in_headers).expect("a status at the end");
    Reply { messages: messages(collected.to_bytes().into()), status }
}

fn messages(mut body: BytesMut) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while !body.is_empty() {
        let header = body.split_to(FRAME_HEADER);
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        messages.push(body.split_to(length as usize).freeze());
    }
    messages
}

impl Reply {
    /// Panics unless the call was answered or refused for what it said: no answer to bad bytes may be that something broke.
    pub fn assert_no_fault(&self) {
        let is_refusal = match self.status.code() {
            Code::Ok | Code::InvalidArgument | Code::FailedPrecondition | Code::ResourceExhausted => true,
            // Of the gRPC library: a message above the limit, bytes that are no message, a compression that is not spoken.
            Code::OutOfRange | Code::Internal | Code::Unimplemented => Reason::of(&self.status).is_none(),
            _ => false,
        };
        assert!(is_refusal, "{:?}", self.status);
    }
}

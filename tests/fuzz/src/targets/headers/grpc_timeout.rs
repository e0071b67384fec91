//! `grpc-timeout`, as every service reads it: through a server with all its layers, over HTTP/2.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderValue, Request, Response};
use specfleet_protocol::channel;
use specfleet_service::{Deadline, GrpcServer, Metrics, Readiness, Shutdown};
use tonic::{body::Body, server::NamedService};
use tower::{Service, ServiceExt};

use super::Door;
use crate::Answer;

/// HTTP/2 takes no more than 16 KiB of headers, and nobody reads a call that has more.
const MOST_BYTES: usize = 8 << 10;
/// A call that may take so long is never cut short here.
const LONG: Duration = Duration::from_secs(60);

/// How long a call may take, as the handler sees it.
type Seen = Arc<Mutex<Option<Option<Duration>>>>;

pub(super) fn door() -> Door {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (seen, metrics) = (Seen::default(), Metrics::local().expect("metrics"));
    let server = GrpcServer::new(Readiness::new(), Shutdown::new(Duration::ZERO), &metrics);
    let server = server.add_service(Handler(seen.clone()));
    let channel = {
        let _inside = runtime.enter();
        let (channel, incoming) = channel::in_memory();
        runtime.spawn(server.serve_with_incoming(incoming));
        channel
    };
    let call = move |timeout: Option<&HeaderValue>| {
        let request = Request::post(format!("/{}/Call", Handler::NAME));
        let request = timeout.into_iter().fold(request, |request, timeout| request.header("grpc-timeout", timeout));
        let request = request.body(Body::empty()).expect("a request that HTTP allows");
        runtime.block_on(channel.clone().oneshot(request))
    };
    // The connection is made before memory is measured.
    call(None).expect("the service answers");
    assert_eq!(take(&seen), Some(None));
    Box::new(move |values| {
        let Some(value) = values.first().filter(|value| value.len() <= MOST_BYTES) else { return Answer::Refused };
        let (answered, allowed) = (call(Some(value)), allowed(value));
        match take(&seen) {
            Some(seen) => assert_eq!(seen, allowed, "{value:?}"),
            None => assert!(allowed.is_some_and(|allowed| allowed < LONG), "{value:?} ends the call: {answered:?}"),
        }
        if allowed.is_some() { Answer::Accepted } else { Answer::Refused }
    })
}

fn take(seen: &Seen) -> Option<Option<Duration>> {
    seen.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// What the header says by the gRPC specification: 1 to 8 digits and a unit.
fn allowed(value: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    let unit = match unit {
        b'H' => Duration::from_secs(3600),
        b'M' => Duration::from_secs(60),
        b'S' => Duration::from_secs(1),
        b'm' => Duration::from_millis(1),
        b'u' => Duration::from_micros(1),
        b'n' => Duration::from_nanos(1),
        _ => return None,
    };
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| 10 * number + u32::from(digit - b'0'));
    Some(number * unit)
}

/// A service that remembers what it was called with.
#[derive(Clone)]
struct Handler(Seen);

impl NamedService for Handler {
    const NAME: &'static str = "specfleet.fuzz.Handler";
}

impl Service<Request<Body>> for Handler {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let deadline = request.extensions().get::<Deadline>();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(deadline.map(|deadline| deadline.allowed));
        ready(Ok(Response::new(Body::empty())))
    }
}

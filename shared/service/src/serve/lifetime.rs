//! A call ends early for two reasons: its caller's deadline, or the end of the process. Either way the caller gets a
//! status with a reason instead of a broken connection, and the handler is dropped, which cancels the work behind it.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame};
use specfleet_protocol::status;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{Deadline, drain::Drain, is_infrastructure};

#[derive(Clone, Debug)]
pub(super) struct LifetimeLayer {
    drain: Drain,
}

impl LifetimeLayer {
    pub(super) fn new(drain: Drain) -> Self {
        Self { drain }
    }
}

impl<S> Layer<S> for LifetimeLayer {
    type Service = Lifetime<S>;

    fn layer(&self, inner: S) -> Lifetime<S> {
        Lifetime { inner, drain: self.drain.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Lifetime<S> {
    inner: S,
    drain: Drain,
}

impl<S> Service<Request<Body>> for Lifetime<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let running = if is_infrastructure(request.uri().path()) {
            // Probes are answered to the last, and nobody waits for them.
            None
        } else {
            match self.drain.enter() {
                Some(token) => Some(token),
                None => return Box::pin(async { Ok(status::draining().into_http()) }),
            }
        };
        let deadline = Deadline::of(request.headers());
        if let Some(deadline) = deadline {
            request.extensions_mut().insert(deadline);
        }
        let mut end = early_end(self.drain.clone(), deadline);
        let response = self.inner.call(request);
        Box::pin(async move {
            tokio::select! {
                biased;
                status = &mut end => Ok(status.into_http()),
                response = response => Ok(response?.map(|inner| Body::new(BoundedBody {
                    inner: Some(inner),
                    end,
                    _running: running,
                }))),
            }
        })
    }
}

/// Resolves to the status of a call that must end now.
fn early_end(drain: Drain, deadline: Option<Deadline>) -> BoxFuture<'static, Status> {
    Box::pin(async move {
        let expired = async {
            match deadline {
                Some(deadline) => {
                    tokio::time::sleep_until(deadline.at).await;
                    deadline.allowed
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = drain.cut() => status::draining(),
            allowed = expired => status::deadline(allowed),
        }
    })
}

/// A response body that can be ended from outside, with a status.
struct BoundedBody {
    /// `None` once ended.
    inner: Option<Body>,
    end: BoxFuture<'static, Status>,
    /// Holds up a drain until dropped.
    _running: Option<TaskTrackerToken>,
}

impl HttpBody for BoundedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        // First, because a stream that always has a next message would never be ended otherwise.
        if let Poll::Ready(status) = this.end.as_mut().poll(cx) {
            this.inner = None;
            return Poll::Ready(Some(as_trailers(&status).map(Frame::trailers)));
        }
        Pin::new(inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(HttpBody::is_end_stream)
    }
}

fn as_trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers)?;
    Ok(trailers)
}

//! The server's side: a span and a duration for each RPC.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use opentelemetry::metrics::Histogram;
use tonic::{Code, body::Body};
use tower::{Layer, Service};
use tracing::Instrument;

use super::call::Call;
use crate::{Metrics, serve::is_infrastructure, telemetry::SECONDS_BUCKETS};

/// Makes a span for each RPC, child of the caller's, that lasts until the last message has gone out, and records the
/// duration as `rpc.server.call.duration`.
#[derive(Clone, Debug)]
pub struct ServerLayer {
    duration: Histogram<f64>,
}

impl ServerLayer {
    /// Durations go to `metrics`.
    pub fn new(metrics: &Metrics) -> Self {
        let duration = metrics
            .meter()
            .f64_histogram("rpc.server.call.duration")
            .with_unit("s")
            .with_description("Duration of inbound RPCs, streams to their end")
            .with_boundaries(SECONDS_BUCKETS.to_vec())
            .build();
        Self { duration }
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = RpcService<S>;

    fn layer(&self, inner: S) -> RpcService<S> {
        RpcService { inner, duration: self.duration.clone() }
    }
}

/// A service under a [`ServerLayer`].
#[derive(Clone, Debug)]
pub struct RpcService<S> {
    inner: S,
    duration: Histogram<f64>,
}

impl<S> Service<Request<Body>> for RpcService<S>
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if is_infrastructure(path) {
            return Box::pin(self.inner.call(request));
        }
        let mut call = Call::start(path, request.headers(), self.duration.clone());
        let span = call.span().clone();
        let response = span.in_scope(|| self.inner.call(request));
        let observed = async move {
            let response = response.await?;
            // A call that fails before its first message has its status here and no trailers.
            call.finish_by(response.headers());
            Ok(response.map(|inner| Body::new(ObservedBody { inner, call })))
        };
        Box::pin(observed.instrument(span))
    }
}

/// A response body that keeps the span open, and enters it, until the status has gone out.
struct ObservedBody {
    inner: Body,
    call: Call,
}

impl HttpBody for ObservedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let span = this.call.span().clone();
        let _entered = span.enter();
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    this.call.finish_by(trailers);
                }
            }
            Some(Err(status)) => this.call.finish(status.code()),
            None => this.call.finish(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

//! A span and a duration for each call, from its first byte to the last of its answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use http_body::{Body as HttpBody, Frame, SizeHint};
use specfleet_service::propagation::adopt_parent;
use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty, info_span};

use super::request_id::RequestId;
use crate::telemetry::HttpMetrics;

/// Paths and methods that the caller made up must not become labels.
const OTHER: &str = "_OTHER";
/// A client that left before its answer was there. Not a status that anybody is sent.
const CLIENT_GONE: u16 = 499;

/// A layer around all routes.
pub(super) async fn observe(State(metrics): State<HttpMetrics>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or(OTHER, MatchedPath::as_str).to_owned();
    let method = method(request.method());
    let span = info_span!(
        "http",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        request_id = request.extensions().get::<RequestId>().map(|id| &*id.0),
    );
    adopt_parent(&span, request.headers());
    let mut exchange =
        Exchange { span: span.clone(), method, route, status: CLIENT_GONE, started: Instant::now(), metrics };
    let response = next.run(request).instrument(span).await;
    exchange.status = response.status().as_u16();
    response.map(|inner| Body::new(ObservedBody { inner, exchange }))
}

/// The methods that the API has, and whatever else came.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}

/// Ends when dropped: with the answer's last byte, or with the client.
struct Exchange {
    span: Span,
    method: &'static str,
    route: String,
    status: u16,
    started: Instant,
    metrics: HttpMetrics,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.span.record("http.response.status_code", self.status);
        if self.status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        self.metrics.call(self.method, std::mem::take(&mut self.route), self.status, self.started.elapsed());
    }
}

/// A body that keeps the span open, and enters it.
struct ObservedBody {
    inner: Body,
    exchange: Exchange,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let _entered = this.exchange.span.enter();
        Pin::new(&mut this.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

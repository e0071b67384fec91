//! W3C trace context (`traceparent`, `tracestate`) in the headers of a call.

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderValue, Request, Response};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use specfleet_service::{Metrics, propagation::ServerLayer};
use tonic::body::Body;
use tower::{Layer, ServiceExt, service_fn};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::Door;
use crate::Answer;

pub(super) fn door() -> Door {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let seen: Arc<Mutex<Option<SpanContext>>> = Arc::default();
    let handler = {
        let seen = seen.clone();
        service_fn(move |_: Request<Body>| {
            let context = Span::current().context().span().span_context().clone();
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
            async { Ok(Response::new(Body::empty())) }
        })
    };
    let service = ServerLayer::new(&Metrics::local().expect("metrics")).layer(handler);
    Box::new(move |values| {
        let mut request = Request::post("/specfleet.v1.DraftService/Propose");
        for (name, value) in ["traceparent", "tracestate"].into_iter().zip(values) {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).expect("a request that HTTP allows");
        let _ = runtime.block_on(service.clone().oneshot(request));
        let context = seen.lock().unwrap_or_else(PoisonError::into_inner).take().expect("the call was handled");
        assert!(context.is_valid(), "every call is in a trace");
        let parent = values.first().and_then(well_formed);
        if let Some(trace_id) = parent {
            assert_eq!(context.trace_id().to_string(), trace_id, "a well-formed parent is kept");
        }
        if parent.is_some() { Answer::Accepted } else { Answer::Refused }
    })
}

/// The trace id of a header in the form that the recommendation gives for version 00.
fn well_formed(header: &HeaderValue) -> Option<&str> {
    let parts: Vec<&str> = header.to_str().ok()?.split('-').collect();
    let is_hex = |text: &str, n_digits: usize| {
        text.len() == n_digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    match parts[..] {
        ["00", trace, parent, flags]
            if is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2) && !is_zero(trace) && !is_zero(parent) =>
        {
            Some(trace)
        }
        _ => None,
    }
}

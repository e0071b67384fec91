//! A round is slow: was it the target, the draft, or the network between? Only a trace that spans both services can
//! tell. The caller writes its span into the call's metadata as a W3C `traceparent`, the callee makes its own span a
//! child of it.
//!
//! Contexts pass through even where nothing is exported, so that a service without a collector does not cut the traces
//! of its neighbours.

use std::collections::HashMap;

use opentelemetry::{propagation::TextMapPropagator, trace::TraceContextExt};
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tonic::{Request, Status, metadata::MetadataMap, service::Interceptor};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

mod call;
mod code;
mod server;

pub use server::{RpcService, ServerLayer};

/// The field of the W3C recommendation "Trace Context".
const TRACEPARENT: &str = "traceparent";

/// Writes the current span into the metadata of every call of a client.
///
/// ```no_run
/// # use specfleet_protocol::{channel, v1::draft_service_client::DraftServiceClient};
/// use specfleet_service::propagation::ClientInterceptor;
///
/// let channel = channel::connect_lazy("localhost:50052", &Default::default())?;
/// let client = DraftServiceClient::with_interceptor(channel, ClientInterceptor);
/// # Ok::<(), channel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientInterceptor;

impl Interceptor for ClientInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        inject(request.metadata_mut());
        Ok(request)
    }
}

/// Writes the current span into `metadata` as `traceparent` and `tracestate`.
pub fn inject(metadata: &mut MetadataMap) {
    let context = Span::current().context();
    TraceContextPropagator::new().inject_context(&context, &mut HeaderInjector(metadata.as_mut()));
}

/// The same for a message inside a stream, whose metadata has gone out long before: the `traceparent` of `span`, empty
/// where nothing is traced.
pub fn traceparent(span: &Span) -> String {
    let mut fields = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut fields);
    fields.remove(TRACEPARENT).unwrap_or_default()
}

/// Makes the sender of such a message the parent of `span`, which must be new. One that is empty or unusable leaves the
/// span where it is.
pub fn continue_trace(span: &Span, traceparent: &str) {
    let fields = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract(&fields);
    if context.span().span_context().is_valid() {
        // Fails only where no OpenTelemetry layer is installed, and then there is no trace to continue.
        let _ = span.set_parent(context);
    }
}

/// Makes the sender's span the parent of `span`. Without a usable `traceparent` the span starts a trace of its own.
pub fn adopt_parent(span: &Span, headers: &http::HeaderMap) {
    let context = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // Fails only where no OpenTelemetry layer is installed, and then there is no trace to continue.
    let _ = span.set_parent(context);
}

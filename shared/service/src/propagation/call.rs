//! One RPC from its first header to its last trailer.

use http::HeaderMap;
use opentelemetry::{KeyValue, metrics::Histogram, trace::TraceContextExt};
use tokio::time::Instant;
use tonic::Code;
use tracing::{Span, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{adopt_parent, code};

const METHOD: &str = "rpc.method";
const STATUS: &str = "rpc.response.status_code";

/// Ends as CANCELLED when dropped before [`finish`](Self::finish): that is how a client that went away looks from here.
#[derive(Debug)]
pub(super) struct Call {
    span: Span,
    method: String,
    started: Instant,
    duration: Histogram<f64>,
    finished: bool,
}

impl Call {
    /// `path` is the request's path, `/package.Service/Method`.
    pub(super) fn start(path: &str, headers: &HeaderMap, duration: Histogram<f64>) -> Self {
        let method = path.trim_start_matches('/').to_owned();
        let span = tracing::info_span!(
            "rpc",
            otel.name = method,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = method,
            rpc.response.status_code = Empty,
            trace_id = Empty,
        );
        adopt_parent(&span, headers);
        let context = span.context();
        let trace_id = context.span().span_context().trace_id();
        // For log lines: the id to look up where traces are kept.
        span.record("trace_id", tracing::field::display(trace_id));
        Self { span, method, started: Instant::now(), duration, finished: false }
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// Ends the call if `headers` (or trailers) hold its status.
    pub(super) fn finish_by(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.finish(Code::from_bytes(status.as_bytes()));
        }
    }

    pub(super) fn finish(&mut self, code: Code) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.span.record(STATUS, code::name(code));
        if code::is_server_error(code) {
            self.span.record("otel.status_code", "ERROR");
        }
        // A path that nobody serves is made up by the caller and must not become a label.
        let method = match code {
            Code::Unimplemented => "_OTHER".to_owned(),
            _ => std::mem::take(&mut self.method),
        };
        self.duration.record(
            self.started.elapsed().as_secs_f64(),
            &[
                KeyValue::new("rpc.system.name", "grpc"),
                KeyValue::new(METHOD, method),
                KeyValue::new(STATUS, code::name(code)),
            ],
        );
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.finish(Code::Cancelled);
    }
}

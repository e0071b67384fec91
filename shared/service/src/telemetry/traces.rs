//! Spans as OpenTelemetry sees them.

use std::env;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use super::Error;

/// The variable that names a collector for traces alone; the exporter reads it by itself.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

pub(super) fn provider(resource: Resource, endpoint: Option<&str>) -> Result<SdkTracerProvider, Error> {
    // The sampler, span limits and batch sizes come from the OTEL_* variables.
    let builder = SdkTracerProvider::builder().with_resource(resource);
    let exporter = SpanExporter::builder().with_tonic();
    let exporter = match endpoint {
        _ if env::var_os(TRACES_ENDPOINT).is_some() => exporter,
        Some(endpoint) => exporter.with_endpoint(endpoint),
        None => return Ok(builder.build()),
    };
    Ok(builder.with_batch_exporter(exporter.build()?).build())
}

/// Turns `tracing` spans of level INFO and above into OpenTelemetry spans. Not events: what a log line says, the log
/// says; what belongs to a span is an attribute of it. [`Telemetry`](super::Telemetry) installs it; this is for those who
/// have a subscriber of their own.
pub fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("specfleet"))
        // Attributes of the implementation, on every span, that nobody asks for.
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO))
}

//! One meter provider, read by the Prometheus page and, where a collector is named, sent to it.

use std::{env, time::Duration};

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_otlp::{MetricExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, error::OTelSdkResult, metrics::SdkMeterProvider};
use prometheus::{Registry, TextEncoder};

use super::{Error, resource};

/// Upper bounds for durations in seconds, from a draft token (100 µs) to a long generation (minutes). The SDK's own
/// bounds are meant for milliseconds and would put every round into the first bucket.
pub const SECONDS_BUCKETS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0,
];

/// The variable that names a collector for metrics alone; the exporter reads it by itself.
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

/// Where instruments come from, and what the metrics page shows. Clones share everything. Not global, so that two
/// services in one test count apart.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Metrics {
    /// The content type of [`text`](Self::text).
    pub const TEXT_FORMAT: &'static str = prometheus::TEXT_FORMAT;

    /// Metrics that go nowhere but to [`text`](Self::text): for tests, and for embedding a service.
    ///
    /// # Errors
    /// [`Error::Metrics`].
    pub fn local() -> Result<Self, Error> {
        Self::build(resource::describe("specfleet"), None)
    }

    pub(super) fn new(resource: Resource, endpoint: Option<&str>) -> Result<Self, Error> {
        let exporter = MetricExporter::builder().with_tonic();
        let exporter = match endpoint {
            _ if env::var_os(METRICS_ENDPOINT).is_some() => Some(exporter.build()?),
            Some(endpoint) => Some(exporter.with_endpoint(endpoint).build()?),
            None => None,
        };
        Self::build(resource, exporter)
    }

    fn build(resource: Resource, exporter: Option<MetricExporter>) -> Result<Self, Error> {
        let registry = Registry::new();
        let page = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            // A label that says "specfleet" on every series of a page that is all specfleet's.
            .scope_info_enabled(false)
            .build()?;
        let mut builder = SdkMeterProvider::builder().with_resource(resource).with_reader(page);
        if let Some(exporter) = exporter {
            builder = builder.with_periodic_exporter(exporter);
        }
        Ok(Self { registry, provider: builder.build() })
    }

    /// Makes instruments. Names with dots (`specfleet.tokens.accepted`) become what Prometheus expects
    /// (`specfleet_tokens_accepted_total`).
    pub fn meter(&self) -> Meter {
        self.provider.meter("specfleet")
    }

    /// All metrics in Prometheus' text form.
    ///
    /// # Errors
    /// When two instruments contradict each other.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    pub(super) fn shutdown(&self, limit: Duration) -> OTelSdkResult {
        self.provider.shutdown_with_timeout(limit)
    }
}

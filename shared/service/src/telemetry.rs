//! What happens inside, for those outside: logs on stderr, spans and metrics to an OTLP collector where one is named,
//! metrics on a page for Prometheus always.
//!
//! Spans are made and contexts passed on even where nothing is exported; the standard `OTEL_*` variables apply.

use std::{thread, time::Duration};

use opentelemetry_sdk::{
    error::{OTelSdkError, OTelSdkResult},
    trace::SdkTracerProvider,
};
use tokio::sync::oneshot;
use tracing_subscriber::util::TryInitError;

use crate::TelemetryArgs;

mod logs;
mod metrics;
mod resource;
pub(crate) mod traces;

pub use metrics::{Metrics, SECONDS_BUCKETS};
pub use traces::layer as span_layer;

/// How long the last spans and metrics may take to reach their collector. A collector that is gone must not hold up a
/// restart.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Why telemetry did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log filter does not parse.
    #[error("--log is {filter:?}: {source}; write LEVEL or TARGET=LEVEL,...")]
    Filter {
        /// As configured.
        filter: String,
        /// What the parser says.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The exporter refuses its settings.
    #[error("cannot export to the OTLP collector: {0}; check --otlp-endpoint and the OTEL_* variables")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
    /// The Prometheus reader cannot be made.
    #[error("cannot collect metrics: {0}")]
    Metrics(#[from] OTelSdkError),
    /// Somebody else has installed a subscriber.
    #[error("telemetry is already started in this process: {0}")]
    AlreadyStarted(#[from] TryInitError),
}

/// Running telemetry. Keep it until the end of the process and call [`shutdown`](Self::shutdown) then.
#[derive(Debug)]
pub struct Telemetry {
    tracer_provider: SdkTracerProvider,
    metrics: Metrics,
}

impl Telemetry {
    /// Installs the process-wide subscriber. Call inside the runtime, once, before anything worth logging.
    /// `OTEL_SERVICE_NAME` goes before `service_name`.
    ///
    /// # Errors
    /// [`enum@Error`].
    pub fn start(service_name: &'static str, args: &TelemetryArgs) -> Result<Self, Error> {
        let resource = resource::describe(service_name);
        let endpoint = args.otlp_endpoint.as_deref();
        let tracer_provider = traces::provider(resource.clone(), endpoint)?;
        let metrics = Metrics::new(resource, endpoint)?;
        logs::install(args, traces::layer(&tracer_provider))?;
        Ok(Self { tracer_provider, metrics })
    }

    /// Where instruments come from and the metrics page reads.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Sends what has not been sent, for at most five seconds.
    pub async fn shutdown(self) {
        match tokio::time::timeout(FLUSH_LIMIT, self.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last telemetry was not delivered"),
            Err(_) => {
                tracing::warn!(limit = ?FLUSH_LIMIT, "the last telemetry was not delivered in time");
            }
        }
    }

    /// The exporters block their thread on the network, while the runtime must go on to move the bytes. A thread of its
    /// own, not one of the runtime's: the runtime would wait at its end for one that hangs.
    async fn flush(self) -> OTelSdkResult {
        let (done, result) = oneshot::channel();
        thread::spawn(move || {
            let spans = self.tracer_provider.shutdown_with_timeout(FLUSH_LIMIT);
            let metrics = self.metrics.shutdown(FLUSH_LIMIT);
            // Nobody listens any more once the limit is over.
            let _ = done.send(spans.and(metrics));
        });
        result.await.unwrap_or(Err(OTelSdkError::AlreadyShutdown))
    }
}

#[cfg(test)]
mod tests;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use crate::Problems;

/// What a service tells about itself, and to whom. The standard `OTEL_*` variables (service name, resource attributes,
/// sampler, headers, batch sizes) are respected beside these.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Telemetry")]
pub struct TelemetryArgs {
    /// Which log lines are written, in the form LEVEL or TARGET=LEVEL,...
    #[arg(long, env = "SPECFLEET_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,

    /// How log lines are written, always to stderr: text for people, json for collectors.
    #[arg(long, env = "SPECFLEET_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// OTLP/gRPC collector for traces and metrics. Without it nothing is sent; metrics can still be scraped, and trace
    /// contexts still pass through.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line an event.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl TelemetryArgs {
    /// Adds what cannot work to `problems`.
    pub fn validate(&self, problems: &mut Problems) {
        if let Err(error) = EnvFilter::try_new(&self.log) {
            problems.add("--log", format!("is {:?}: {error}", self.log));
        }
        if let Some(endpoint) = &self.otlp_endpoint {
            let is_url =
                endpoint.parse::<http::Uri>().is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
            problems
                .check("--otlp-endpoint", is_url, || format!("is {endpoint:?}, must be like http://collector:4317"));
        }
    }
}

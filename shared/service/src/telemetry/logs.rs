//! Log lines on stderr: stdout belongs to the output of commands.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt, layer::SubscriberExt, registry::LookupSpan, util::SubscriberInitExt,
};

use super::Error;
use crate::{TelemetryArgs, args::LogFormat};

/// Installs log lines and `spans` as the subscriber of this process. The log filter does not touch the spans: a quiet
/// log must not mean empty traces.
pub(super) fn install(args: &TelemetryArgs, spans: impl Layer<Registry> + Send + Sync) -> Result<(), Error> {
    let filter = EnvFilter::try_new(&args.log).map_err(|source| Error::Filter { filter: args.log.clone(), source })?;
    tracing_subscriber::registry().with(spans).with(lines(args.log_format).with_filter(filter)).try_init()?;
    Ok(())
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // Colours are for people; in a file or a pipe they would be noise.
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed(),
    }
}

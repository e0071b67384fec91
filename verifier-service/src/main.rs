//! The verifier-service. See the library for how it works.

use std::process::ExitCode;

use clap::Parser;
use specfleet_service::{Shutdown, Telemetry};
use specfleet_verifier_service::{Config, run, telemetry::SERVICE_NAME};

fn main() -> ExitCode {
    match serve(Config::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verifier-service: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve(config: Config) -> anyhow::Result<()> {
    config.validate()?;
    let telemetry = Telemetry::start(SERVICE_NAME, &config.telemetry)?;
    let shutdown = Shutdown::on_signals(config.listen.drain_limit)?;
    let outcome = run(config, shutdown, telemetry.metrics()).await;
    telemetry.shutdown().await;
    outcome
}

/// The error and those causes that it does not quote. No backtrace: it is about the environment, not about the code.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        _ if text.contains(&cause) => text,
        _ => format!("{text}: {cause}"),
    })
}

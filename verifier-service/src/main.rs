//! The verifier-service. See the library for how it works.

use std::{io, process::ExitCode};

use clap::Parser;
use mimalloc::MiMalloc;
use specfleet_service::{Shutdown, Telemetry, openmp, with_causes};
use specfleet_verifier_service::{Config, run, telemetry::SERVICE_NAME};
use tracing::warn;

/// The system's keeps what a burst has needed, once for each thread that has had one: a fleet's processes would grow for days.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let waits_passively = openmp::wait_passively();
    match serve(Config::parse(), waits_passively) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verifier-service: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve(config: Config, waits_passively: io::Result<()>) -> anyhow::Result<()> {
    config.validate()?;
    let telemetry = Telemetry::start(SERVICE_NAME, &config.telemetry)?;
    if let Err(error) = waits_passively {
        warn!(%error, "cannot set OMP_WAIT_POLICY=passive; set it, or steps are slow beside another service");
    }
    let shutdown = Shutdown::on_signals(config.listen.drain_limit)?;
    let outcome = run(config, shutdown, telemetry.metrics()).await;
    telemetry.shutdown().await;
    outcome
}

//! The draft-service. See the library for how it works.

use std::{io, process::ExitCode};

use clap::Parser;
use mimalloc::MiMalloc;
use specfleet_draft_service::{
    Cli, assemble,
    config::{Command, Config},
    run,
    telemetry::SERVICE_NAME,
};
use specfleet_service::{Shutdown, Telemetry, openmp, with_causes};
use tracing::warn;

/// The system's keeps what a burst has needed, once for each thread that has had one: a fleet's processes would grow for days.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let waits_passively = openmp::wait_passively();
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Some(Command::Assemble(args)) => assemble(args),
        None => serve(cli.serve, waits_passively),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("draft-service: {}", with_causes(error.as_ref()));
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

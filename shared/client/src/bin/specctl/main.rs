//! `specctl`: what one does with specfleet from a terminal.
//!
//! Each command is one module with a `run` function; the modules beside them hold what several commands share: how a
//! request is put together from flags ([`options`]), how answers are streamed ([`stream`], [`turns`]), what is measured
//! of them ([`observe`], [`acceptance`], [`round_times`], [`stats`]), how they look ([`rounds`], [`json`], [`text`],
//! [`terminal`]), what long commands ask ([`prompts`], [`sides`]) and of whom ([`fleet`]), and how far they are
//! ([`progress`]).
//!
//! Text that was asked for goes to standard output, everything about it to standard error, so that pipes hold what
//! they should. With `--json` standard output holds JSON alone, errors included.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

mod acceptance;
mod audit;
mod bench;
mod chat;
mod cli;
mod drafts;
mod fleet;
mod generate;
mod identity;
mod json;
mod observe;
mod options;
mod progress;
mod prompts;
mod round_times;
mod rounds;
mod sides;
mod stats;
mod stream;
mod terminal;
mod text;
mod turns;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.global.json;
    // One thread: the services may run on the same cores, and the client should not be what slows them down.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report(&error.into(), json),
    };
    let result = runtime.block_on(run(cli));
    // A thread may still wait for a line of input that nobody wants any more.
    runtime.shutdown_background();
    result.unwrap_or_else(|error| report(&error, json))
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Generate(args) => generate::run(&args, &cli.global).await,
        Command::Chat(args) => chat::run(&args, &cli.global).await,
        Command::Identity(args) => identity::run(&args, &cli.global).await,
        Command::Drafts(args) => drafts::run(&args, &cli.global).await,
        Command::Audit(args) => audit::run(&args, &cli.global).await,
        Command::Bench(args) => bench::run(&args, &cli.global).await,
    }
}

/// Says what went wrong. A reader that closed the pipe has seen enough: no error then.
fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let closed_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(closed_pipe) {
        return ExitCode::SUCCESS;
    }
    if json {
        // Where even this cannot be written, the exit code has to do.
        let _ = writeln!(io::stdout(), "{}", json::error(error));
    }
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

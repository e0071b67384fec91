//! `specctl bench`: does speculation pay on this machine, for these models, on these prompts?
//!
//! Two speeds that were measured one after the other mostly compare two moods of a machine. So plain and speculative
//! decoding alternate on the same prompts, and everything that could favour one side is the same for both:
//!
//! - **Pairs.** Each batch (one prompt, or as many as there are streams) runs plainly and with speculation back to
//!   back. Which goes first alternates from batch to batch and is swapped in the next pass.
//! - **Warm-up.** Every prompt runs once for one token first, so that both sides find its prefix known; then one batch
//!   runs in full each way.
//! - **Same sampling.** Both sides are asked for the same distribution: the given temperature, nothing else cut or
//!   penalised, no seed, the standard acceptance rule. End tokens end an answer.
//!
//! What the numbers mean:
//!
//! - **tokens/s of a stream**: tokens after the first message that had any, over the time from that message to the
//!   last, by this program's clock; all tokens of the cell over all time of the cell. Prefill is left out.
//! - **tokens/s of all streams**: all tokens of a batch over its wall time, from sending the requests to the last end.
//!   A batch ends with its longest answer, so the last part of it runs with fewer streams, on both sides.
//! - **ratio**: speculative over plain, of the sums; the quartiles are over the pairs.
//! - **acceptance**: of the rounds that tested a position, the share that accepted it.
//! - **time of a round**: per decoding step, as the verifier reports it; *other* is what is neither the target's
//!   forward pass, nor the draft's, nor the network.
//! - **predicted**: the ratio that the measured acceptance allows, if a round took verify + draft + network and nothing
//!   else: expected tokens a step / (verify + draft + network) x plain step, where steps without a proposal bring one
//!   token ([`predict`]). *Reached* is the measured ratio of a stream in percent of it: below 100 are late drafts and
//!   *other*.
//! - **weights**: bytes of weights that a plain step reads, over the time of a step, beside a loop that only reads
//!   ([`bandwidth`]).

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use specfleet_client::Client;
use specfleet_client::v1::{DraftState, VerifierServiceGetIdentityResponse};

use crate::bench::bandwidth::{ReadLoop, Weights};
use crate::bench::measure::Bench;
use crate::bench::report::Report;
use crate::cli::Global;
use crate::sides::Drafting;
use crate::{json, prompts};

mod bandwidth;
mod cell;
mod measure;
mod predict;
mod quartiles;
mod report;
mod table;

/// Compare plain and speculative decoding on the same prompts, in one run.
///
/// Runs every prompt plainly and with speculation back to back, alternating which goes first, at several numbers of
/// concurrent streams and several temperatures. Prints a table; progress goes to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = DEFINITIONS)]
pub(crate) struct BenchArgs {
    /// Numbers of concurrent streams.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,4,16", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) streams: Vec<u32>,
    /// Temperatures; 0 is greedy.
    #[arg(long, value_name = "T,...", value_delimiter = ',', default_value = "0,0.8")]
    pub(crate) temperatures: Vec<f32>,
    /// Length of each answer at most.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) max_tokens: u32,
    /// How often the whole prompt set is run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) passes: u32,
    #[command(flatten)]
    drafting: Drafting,
    /// Prompts to use: JSON lines of {"id", "kind", "prompt"}. Otherwise a built-in set: chat, code, summaries, lists.
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,
    /// A first impression in well under a minute: 6 prompts, 1 stream.
    #[arg(long, conflicts_with = "streams")]
    pub(crate) quick: bool,
    /// Write the report as JSON to this file too.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  specctl bench --quick
  specctl bench --streams 1,4,16 --temperatures 0,0.8 --output bench.json
  specctl bench --draft-length 2 --passes 3 --streams 1
  specctl bench --json | jq '.cells[] | {streams, temperature, ratio: .stream.ratio}'

`specctl bench --help` says what each number means.";

const DEFINITIONS: &str = "\
How it measures:
  Each batch (one prompt, or as many as there are streams) runs plainly and with speculation
  back to back; which goes first alternates. Before that every prompt runs once for one token,
  so that both sides find its prefix known, and one batch runs in full each way. Both sides
  ask for the same distribution: this temperature, nothing cut or penalised, no seed, the
  standard rule. End tokens end an answer.

What the numbers mean:
  plain, spec.  tokens/s of a stream after the first message with tokens, until the last: all
                tokens of the cell over all time of the cell, by this program's clock. Prefill
                is left out.
  all ...       tokens/s of a whole batch, from sending its requests to its last end.
  ratio         speculative over plain, of those sums; the quartiles are over the pairs.
  by position   of the rounds that tested a position of the proposal, the share that accepted
                it.
  round         milliseconds of a decoding step, from the verifier's timings. `other` is what
                is neither the target's forward pass, nor the draft's, nor the network.
  predicted     the ratio of a stream that the measured acceptance allows if a round took
                verify + draft + network and nothing else:
                expected tokens a step / (verify + draft + network) x plain step.
  reached       the measured ratio of a stream in percent of that.
  weights       bytes of weights that a plain step reads over its time, beside a loop on this
                machine that only reads, with as many threads. It means something only when
                the verifier runs on this machine, on its CPU.

Examples:
  specctl bench --quick
  specctl bench --streams 1,4,16 --temperatures 0,0.8 --output bench.json
  specctl bench --draft-length 2 --passes 3 --streams 1
  specctl bench --json | jq '.cells[] | {streams, temperature, ratio: .stream.ratio}'";

const QUICK_PROMPTS: usize = 6;

pub(crate) async fn run(args: &BenchArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let mut prompts = prompts::from(args.prompts.as_deref())?;
    let mut streams = args.streams.clone();
    if args.quick {
        prompts = prompts::spread(prompts, QUICK_PROMPTS);
        streams = vec![1];
    }
    let client = Client::connect(&global.endpoint).await?;
    let identity = client.identity().await?;
    require_a_draft(&identity)?;
    let read_loop = ReadLoop::new(&global.endpoint, &identity.identity.clone().unwrap_or_default());

    let mut report = Report::new(args, &streams, prompts.len(), &global.endpoint, &identity);
    let bench = Bench { client, prompts, args };
    bench.warm_up_prompts().await?;
    for &streams in &streams {
        for &temperature in &args.temperatures {
            // The machine's bandwidth drifts too: it is read right before and after the cell it is compared with.
            let compare = streams == 1 && report.weights.is_none();
            let before = compare.then(|| read_loop.gb_per_second());
            let cell = bench.cell(streams, temperature).await?;
            if let Some(before) = before {
                report.weights = Some(Weights::new(&read_loop, before, &cell));
            }
            report.cells.push(cell);
        }
    }
    write_report(&report, args, global)?;
    Ok(ExitCode::SUCCESS)
}

/// Without a draft both sides would be plain, and the ratio would be 1 with a straight face.
fn require_a_draft(identity: &VerifierServiceGetIdentityResponse) -> anyhow::Result<()> {
    if identity.drafts.iter().any(|draft| draft.state() == DraftState::Ready) {
        return Ok(());
    }
    if identity.drafts.is_empty() {
        bail!("this verifier has no draft to compare with; start it with the address of a draft-service");
    }
    let states = identity
        .drafts
        .iter()
        .map(|draft| format!("\n  {} is {}: {}", draft.endpoint, json::draft_state(draft.state()), draft.detail));
    bail!("no draft is ready, so there is nothing to compare:{}", states.collect::<String>())
}

fn write_report(report: &Report, args: &BenchArgs, global: &Global) -> anyhow::Result<()> {
    let json = serde_json::to_string(report).context("cannot write the report as JSON")?;
    if let Some(path) = &args.output {
        std::fs::write(path, format!("{json}\n"))
            .with_context(|| format!("cannot write the report to {}", path.display()))?;
    }
    let mut out = io::stdout();
    if global.json {
        writeln!(out, "{json}")?
    } else {
        write!(out, "{}", table::render(report))?
    }
    Ok(())
}

//! `specctl audit`: is the text of this fleet what its target alone would write?
//!
//! Speculation must not show. Some answers must be equal to the last token with it and without, others must have the same
//! law, and the verifier keeps evidence of its own about its drafts. Each of these is a check:
//!
//! | check | compares | by |
//! |---|---|---|
//! | greedy | the likeliest tokens, plain and speculative | equality ([`equality`]) |
//! | seeded | several continuations of a seed, plain and speculative | equality ([`equality`]) |
//! | law | many short answers without a seed, plain and speculative, by the standard rule | chi-square ([`law`]) |
//! | noise | many short plain answers, by the draft-invariant rule and by the standard one | chi-square ([`law`]) |
//! | honesty | what the verifier has found out about each draft version | its own evidence ([`honesty`]) |
//!
//! Plain answers run in large batches, which is fast, and tests on the way that company changes nothing. Speculative ones
//! run a few at a time, because drafts rest when many requests run; how many rounds tested a proposal is counted
//! ([`evidence`]), and an audit that saw too few of them says that it cannot judge.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use specfleet_client::Client;
use specfleet_client::v1::{DraftState, DraftStatus, VerifierServiceGetIdentityResponse};

use crate::audit::ask::Asker;
use crate::audit::check::Check;
use crate::audit::checks::Audit;
use crate::audit::help::{DEFINITIONS, EXAMPLES};
use crate::audit::report::Report;
use crate::cli::Global;
use crate::sides::Drafting;
use crate::{json, prompts};

mod ask;
mod cells;
mod check;
mod checks;
mod chi_square;
mod draws;
mod equality;
mod evidence;
mod help;
mod honesty;
mod law;
mod report;

/// Check that speculation does not show: compare this fleet's text with what its target alone would write.
///
/// Sends a batch of requests with speculation on and off and compares the answers: token for token where they must be
/// equal (greedy, and with a seed), by a statistical test where they are draws from one law. Reads what the verifier has
/// found out about the honesty of its drafts. Prints a table and a verdict; progress goes to standard error. Takes a minute
/// or two and needs no access to anything but the verifier.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = DEFINITIONS)]
pub(crate) struct AuditArgs {
    /// Prompts to use: JSON lines of {"id", "kind", "prompt"}. Otherwise a built-in set: chat, code, summaries, lists.
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// How many prompts are compared token for token.
    #[arg(long, value_name = "N", default_value_t = 12)]
    compare: usize,
    /// Length of these answers at most.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(2..))]
    max_tokens: u32,
    /// Short answers of each case, each way, for the comparison of laws. There are six cases: three prompts, sampled as the
    /// model says and with its tail cut off.
    #[arg(long, value_name = "N", default_value_t = 400)]
    samples: usize,
    /// How many answers with speculation run at a time. With more than a few, a verifier on a CPU lets its drafts rest (see
    /// its --verify-rows), and there is nothing to audit.
    #[arg(long, value_name = "N", default_value_t = 2)]
    streams: usize,
    /// The probability with which a fleet without fault may fail by chance.
    #[arg(long, value_name = "P", default_value_t = 1e-5, value_parser = probability)]
    false_alarm: f64,
    /// Stop sampling after this long and judge by what has come.
    #[arg(long, value_name = "DURATION", default_value = "110s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    #[command(flatten)]
    drafting: Drafting,
    /// The seed of the seeded requests; otherwise another one each time.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) async fn run(args: &AuditArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    let prompts = prompts::from(args.prompts.as_deref())?;
    let client = Client::connect(&global.endpoint).await?;
    let identity = client.identity().await?;
    let seed = args.seed.unwrap_or_else(seed_from_clock);
    let asker = Asker { client, args };
    let audit = Audit { asker, prompts, seed, promises_equal_bits: promises_equal_bits(&identity), begin };
    let checks = match no_draft(&identity) {
        Some(why) => vec![Check::not_judged("speculation", why)],
        None => audit.checks().await?,
    };
    let report = Report::new(args, seed, &global.endpoint, &identity, checks, begin.elapsed());
    let mut out = io::stdout();
    if global.json {
        let json = serde_json::to_string(&report).context("cannot write the report as JSON")?;
        writeln!(out, "{json}")?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(report.verdict.exit_code())
}

/// Without a draft, both sides of every comparison would be the same.
fn no_draft(identity: &VerifierServiceGetIdentityResponse) -> Option<String> {
    if identity.drafts.iter().any(|draft| draft.state() == DraftState::Ready) {
        return None;
    }
    let describe =
        |draft: &DraftStatus| format!("{} is {}: {}", draft.endpoint, json::draft_state(draft.state()), draft.detail);
    let drafts: Vec<String> = identity.drafts.iter().map(describe).collect();
    Some(match drafts.is_empty() {
        true => "this verifier has no draft, so there is no speculation to audit".to_owned(),
        false => format!("no draft is ready: {}", drafts.join("; ")),
    })
}

/// Only the fused operators compute a row alike in any company.
fn promises_equal_bits(identity: &VerifierServiceGetIdentityResponse) -> bool {
    identity.identity.as_ref().is_some_and(|identity| identity.device.contains("fused"))
}

fn seed_from_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err(format!("{value} is not between 0 and 1")) }
}

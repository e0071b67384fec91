//! The report for people. Tables are Markdown, so that they can be pasted where such figures end up.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::bench::bandwidth::{Comparison, Weights};
use crate::bench::cell::Cell;
use crate::bench::quartiles::Quartiles;
use crate::bench::report::Report;
use crate::round_times::RoundTimes;
use crate::text::{count, list, percentages, short_id};

/// The whole report.
pub(super) fn render(report: &Report) -> String {
    let mut text = head(report);
    let _ = write!(text, "\nTokens per second of a stream, and of all streams together\n\n{}\n", speeds(&report.cells));
    let _ = write!(text, "\nRounds, times in ms\n\n{}\n", rounds(&report.cells));
    text += &fallbacks(&report.cells);
    if let Some(weights) = &report.weights {
        let _ = write!(text, "\n{}", weights_text(weights));
    }
    text
}

fn head(report: &Report) -> String {
    let mut text = String::new();
    let describe = |role: &str, identity: &serde_json::Value| {
        let field = |name: &str| identity[name].as_str().unwrap_or_default();
        let threads = count(identity["compute_threads"].as_u64().unwrap_or_default(), "thread");
        let version = short_id(field("version_id"));
        format!("{role:<7} {} ({version}), {} on {}, {threads}\n", field("label"), field("dtype"), field("device"))
    };
    text += &describe("target", &report.fleet.target);
    report.fleet.drafts.iter().for_each(|draft| text += &describe("draft", draft));
    let settings = &report.settings;
    let length = settings.draft_length.map_or("the verifier's".to_owned(), |length| format!("at most {length}"));
    let _ = writeln!(
        text,
        "{} prompts, {} each, at most {} tokens, draft length {length}",
        settings.prompts,
        count(settings.passes.into(), "run"),
        settings.max_tokens
    );
    text
}

fn speeds(cells: &[Cell]) -> Table {
    let mut table = table(&[
        "streams",
        "temp.",
        "plain",
        "spec.",
        "ratio",
        "quartiles",
        "predicted",
        "reached",
        "all plain",
        "all spec.",
        "all ratio",
        "all quartiles",
    ]);
    for cell in cells {
        let prediction = cell.prediction.as_ref();
        table.add_row([
            cell.streams.to_string(),
            cell.temperature.to_string(),
            format!("{:.1}", cell.stream.plain_tokens_per_second),
            format!("{:.1}", cell.stream.speculative_tokens_per_second),
            format!("{:.2}", cell.stream.ratio),
            quartiles(cell.stream.ratio_quartiles),
            prediction.map_or("-".to_owned(), |prediction| format!("{:.2}", prediction.ratio)),
            prediction.map_or("-".to_owned(), |prediction| format!("{:.0}%", prediction.reached_percent)),
            format!("{:.1}", cell.all_streams.plain_tokens_per_second),
            format!("{:.1}", cell.all_streams.speculative_tokens_per_second),
            format!("{:.2}", cell.all_streams.ratio),
            quartiles(cell.all_streams.ratio_quartiles),
        ]);
    }
    table
}

fn rounds(cells: &[Cell]) -> Table {
    let mut table = table(&[
        "streams",
        "temp.",
        "by position",
        "tokens/round",
        "length",
        "plain step",
        "round",
        "verify",
        "draft",
        "network",
        "other",
        "other %",
    ]);
    for cell in cells {
        let time = |times: Option<RoundTimes>, part: fn(&RoundTimes) -> f64| {
            times.map_or("-".to_owned(), |times| format!("{:.2}", part(&times)))
        };
        table.add_row([
            cell.streams.to_string(),
            cell.temperature.to_string(),
            percentages(&cell.acceptance_by_position),
            format!("{:.2}", cell.tokens_per_round),
            format!("{:.1}", cell.mean_draft_length),
            time(cell.plain_step, |times| times.total_ms),
            time(cell.round, |times| times.total_ms),
            time(cell.round, |times| times.verify_ms),
            time(cell.round, |times| times.draft_ms),
            time(cell.round, |times| times.network_ms),
            time(cell.round, |times| times.other_ms),
            cell.round.map_or("-".to_owned(), |times| format!("{:.1}%", times.other_percent)),
        ]);
    }
    table
}

/// Plain steps of the speculative side, where there were any: they are what "reached" misses.
fn fallbacks(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells.iter().filter(|cell| cell.acceptance.plain_steps > 0) {
        let sum = &cell.acceptance;
        let _ = writeln!(
            text,
            "{}, temp. {}: {} beside {} rounds ({})",
            count(cell.streams.into(), "stream"),
            cell.temperature,
            count(sum.plain_steps, "plain step"),
            sum.speculative_rounds,
            list(&sum.plain_reasons)
        );
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn weights_text(weights: &Weights) -> String {
    match weights {
        Weights::Skipped { why } => format!("Weights: not compared with a read loop, because {why}.\n"),
        Weights::Compared(Comparison {
            threads,
            read_loop_gb_per_second,
            step_weight_bytes,
            step_ms,
            forward_ms,
            step_gb_per_second,
            forward_gb_per_second,
            step_percent,
            forward_percent,
        }) => format!(
            "Weights, 1 stream: a loop that only reads gets {read_loop_gb_per_second:.1} GB/s with {} \
             on this machine.\n\
             A plain step reads {:.1} MB in {step_ms:.2} ms: {step_gb_per_second:.1} GB/s, {step_percent:.0}% of it; \
             its forward pass takes {forward_ms:.2} ms: {forward_gb_per_second:.1} GB/s, {forward_percent:.0}%.\n",
            count(*threads as u64, "thread"),
            *step_weight_bytes as f64 / 1e6
        ),
    }
}

fn quartiles(quartiles: Option<Quartiles>) -> String {
    quartiles.map_or("-".to_owned(), |ratio| format!("{:.2} {:.2} {:.2}", ratio.lower, ratio.median, ratio.upper))
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

#[cfg(test)]
mod tests;

//! Does the audit find drafts that lie, and never one that does not?
//!
//! A simulated target and drafts of many habits go through the production path: shape, draw, report, test, audit. Honest
//! drafts must never be failed (`honest`), each kind of lie must be (`lies`), and the number of positions that it took is
//! printed. Numbers are seeded, so every run sees the same.

#![allow(clippy::unwrap_used)]

mod cost;
mod habit;
mod honest;
mod lies;
mod rows;
mod simulation;

/// Whether the long forms are wanted.
fn is_long() -> bool {
    std::env::var_os("SPECFLEET_TEST_LONG").is_some()
}

/// Prints past the test harness, which shows nothing of tests that pass.
fn say(line: &str) {
    use std::io::Write;
    // Nobody misses a line on a closed pipe.
    let _ = writeln!(std::io::stdout(), "{line}");
}

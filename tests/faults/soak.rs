//! Thousands of requests, with drafts, without, in turns, a tenth of them cut off: does anything stay behind?
//!
//! Memory is measured over the whole process, so the requests run in a process of their own: this very test, started
//! again.

use std::{fs, process::Command};

use futures::{StreamExt, stream};
use specfleet_client::v1::{GenerateRequest, SpeculationOptions};
use specfleet_tests::{
    outcome::leave_after,
    scripted_pair::{ScriptedPair, request, settings},
};

use crate::support::{await_idle_draft, certain, plain, winding};

/// Requests at a time.
const WIDTH: usize = 16;

/// Runs by itself only where [`nothing_stays_behind`] starts it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process: run by nothing_stays_behind"]
async fn in_a_process_of_its_own() {
    let long = std::env::var_os("SPECFLEET_TEST_LONG").is_some();
    let (n_first, n_last) = if long { (1000, 5000) } else { (300, 900) };
    let pair = ScriptedPair::of_models(certain(winding), certain(winding), settings()).await;
    run(&pair, 0..n_first).await;
    assert_nothing_left(&pair).await;
    let first = resident_bytes();
    run(&pair, n_first..n_last).await;
    assert_nothing_left(&pair).await;
    let last = resident_bytes();
    println!("{first} bytes after {n_first} requests, {last} after {n_last}");
    // Two percent, or a megabyte: the process is small.
    let most = first + (first / 50).max(1 << 20);
    assert!(last <= most, "{first} bytes after {n_first} requests, {last} after {n_last}");
}

#[test]
fn nothing_stays_behind() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "soak::in_a_process_of_its_own", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{error}");
    assert!(out.contains("1 passed"), "it ran: {out}");
    print!("{out}");
}

async fn run(pair: &ScriptedPair, numbers: std::ops::Range<u32>) {
    stream::iter(numbers).map(|number| one(pair, number)).buffer_unordered(WIDTH).collect::<Vec<()>>().await;
}

/// One of three kinds: without drafts, with, and with so few free rows that they come and go. Every tenth is cut off.
async fn one(pair: &ScriptedPair, number: u32) {
    let prompt = [number % 15, number / 15 % 15, number / 225 % 15];
    let draft_length = [0, 4, number % 7][(number % 3) as usize];
    let speculation = SpeculationOptions { max_draft_length: Some(draft_length), ..SpeculationOptions::default() };
    let wire = GenerateRequest { speculation: Some(speculation), ..request(&prompt, 40) };
    if number.is_multiple_of(10) {
        let wire = GenerateRequest { max_tokens: Some(4000), ..wire };
        leave_after(&pair.client, wire, 5).await.unwrap();
    } else {
        let outcome = pair.generate(wire).await;
        assert_eq!(outcome.token_ids(), plain(winding, &prompt, 40));
        let report = outcome.speculation();
        // The draft is the target: the first request and the last are drafted for as well.
        assert_eq!((report.accepted, report.corrected), (report.proposed, 0), "request {number}: {report:?}");
    }
}

/// Sessions, KV blocks and requests of both services.
async fn assert_nothing_left(pair: &ScriptedPair) {
    pair.verifier.wait_until_idle().await;
    await_idle_draft(&pair.draft.metrics).await;
}

/// What the process holds in memory.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says it");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

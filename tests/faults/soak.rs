//! Thousands of requests, with drafts, without, in turns, a tenth of them cut off; and many streams at a time whose clients
//! come and go: does anything stay behind?
//!
//! What counts is memory that is in use. What the system has given is more, and goes up and down with the threads that an
//! allocator keeps some for. It is counted over the whole process, so each of these runs in a process of its own: this very
//! program, started again.

use std::{process::Command, time::Duration};

use futures::{StreamExt, stream};
use specfleet_client::v1::{DraftState, GenerateRequest, SpeculationOptions};
use specfleet_tests::{
    outcome::leave_after,
    scripted_pair::{ScriptedPair, request, settings},
    traffic::{Case, Tally, Traffic},
};
use stats_alloc::Stats;

use crate::{
    ALLOCATOR,
    support::{Served, await_idle_draft, certain, plain, serve_draft, serve_verifier, winding},
};

/// Requests at a time.
const WIDTH: usize = 16;
/// Clients at a time that come and go.
const N_STREAMS: usize = 32;

#[test]
fn nothing_stays_behind() {
    run_apart("in_a_process_of_its_own");
}

#[test]
fn streams_whose_clients_come_and_go_leave_nothing_behind() {
    run_apart("coming_and_going");
}

/// Runs a test of this file in a process of its own.
fn run_apart(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("soak::{test}"), "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}\n{error}");
    assert!(out.contains("1 passed"), "it ran: {out}");
    print!("{out}");
}

/// Runs by itself only where [`nothing_stays_behind`] starts it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process: run by nothing_stays_behind"]
async fn in_a_process_of_its_own() {
    let (n_first, n_last) = if is_long() { (1000, 5000) } else { (300, 900) };
    let pair = ScriptedPair::of_models(certain(winding), certain(winding), settings()).await;
    run(&pair, 0..n_first).await;
    assert_nothing_left(&pair).await;
    let first = bytes_in_use();
    run(&pair, n_first..n_last).await;
    assert_nothing_left(&pair).await;
    let last = bytes_in_use();
    println!("{first} bytes after {n_first} requests, {last} after {n_last}");
    assert_flat(first, last);
}

/// Runs by itself only where [`streams_whose_clients_come_and_go_leave_nothing_behind`] starts it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the memory of its process: run by streams_whose_clients_come_and_go_leave_nothing_behind"]
async fn coming_and_going() {
    let (warm_up, time) = if is_long() { (60, 540) } else { (3, 7) };
    let draft = serve_draft(certain(winding)).await;
    let target = certain(winding).with_delay(Duration::from_millis(1)).with_kv_tokens(KV_TOKENS);
    let verifier = serve_verifier(target, &[draft.address], settings().verifier, Duration::ZERO).await;
    verifier.await_draft(DraftState::Ready).await;
    let cases = (0..200).map(|number| {
        let prompt = vec![number % 15, number / 15];
        let text = plain(winding, &prompt, MAX_TOKENS).into_iter().map(|id| char::from(b'a' + id as u8)).collect();
        Case { prompt, text: Some(text) }
    });
    let traffic = Traffic {
        client: verifier.client(),
        http: verifier.http(),
        n_streams: N_STREAMS,
        cases: cases.collect(),
        max_tokens: MAX_TOKENS,
        // The vocabulary is letters.
        with_objects: false,
    };
    let before = traffic.run(1, Duration::from_secs(warm_up)).await;
    let first = settled(&verifier, &draft).await;
    let after = traffic.run(2, Duration::from_secs(time)).await;
    let last = settled(&verifier, &draft).await;
    println!("{N_STREAMS} streams: {before:?}, {first} bytes; then {after:?}, {last} bytes");
    let Tally { n_whole, n_left, n_unread, .. } = after;
    assert!(n_whole > 3 * N_STREAMS && n_left > N_STREAMS, "{after:?}");
    assert!(n_unread > 0 || !is_long(), "{after:?}");
    assert_flat(first, last);
    let ended = |outcome: &str| verifier.metric("specfleet_verifier_requests_total", outcome);
    assert_eq!(ended(""), ended("finished") + ended("cancelled"), "every request ended in one of these ways");
    assert!(ended("finished") >= (before.n_whole + after.n_whole) as f64);
    assert!(verifier.metric("specfleet_verifier_draft_tokens_accepted_total", "") > 0.0, "drafts had their part");
}

/// The longest answer that is asked for.
const MAX_TOKENS: usize = 120;
/// Too few for all streams at once: some are pre-empted.
const KV_TOKENS: usize = 2048;

/// What the process holds once nothing of any request is left in either service.
async fn settled(verifier: &Served, draft: &Served) -> usize {
    verifier.await_idle().await;
    await_idle_draft(&draft.metrics).await;
    bytes_in_use()
}

fn bytes_in_use() -> usize {
    let Stats { bytes_allocated, bytes_deallocated, .. } = ALLOCATOR.stats();
    bytes_allocated - bytes_deallocated
}

/// Half a megabyte: a little depends on which threads and connections there are at the moment.
fn assert_flat(first: usize, last: usize) {
    assert!(last <= first + (512 << 10), "{first} bytes, and then {last}");
}

fn is_long() -> bool {
    std::env::var_os("SPECFLEET_TEST_LONG").is_some()
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

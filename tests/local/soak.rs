//! The real pair under load: 32 streams at a time over both faces, of whose clients a third leaves, some of them after
//! they have let their answer lie unread, and a quarter wants JSON. Afterwards both processes are where they were.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;
use specfleet_client::Client;
use specfleet_tests::{
    binaries::Pair,
    http::post_json,
    traffic::{Case, Tally, Traffic},
};

const N_STREAMS: usize = 32;
const MAX_TOKENS: usize = 48;
/// How long the last requests may take to leave.
const PATIENCE: Duration = Duration::from_secs(60);
/// With the default, drafts rest from four streams on. These arguments give every stream its draft, and little memory to
/// keep prefixes in, so that it is full when the warm-up ends.
const ARGUMENTS: [&str; 4] = ["--verify-rows", "64", "--kv-tokens", "4096"];

#[test]
fn thirty_two_streams_whose_clients_come_and_go_leave_the_pair_as_it_was() {
    let is_long = specfleet_tests::real_models::long_form();
    let (warm_up, time) = if is_long { (90, 600) } else { (8, 8) };
    let pair = Pair::start_verifying(&ARGUMENTS);
    let cases = cases(&pair);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (before, first, after, last) = runtime.block_on(async {
        let client = Client::connect(&format!("http://{}", pair.verifier.address)).await.unwrap();
        let http = pair.verifier.http;
        let (n_streams, max_tokens) = (N_STREAMS, MAX_TOKENS);
        let traffic = Traffic { client, http, n_streams, cases, max_tokens, with_objects: true };
        let before = traffic.run(1, Duration::from_secs(warm_up)).await;
        let first = settled(&pair);
        let after = traffic.run(2, Duration::from_secs(time)).await;
        (before, first, after, settled(&pair))
    });
    println!("warm-up: {before:?}, {first:?} bytes; {time} s: {after:?}, {last:?} bytes");
    let Tally { n_whole, n_objects, n_left, n_unread } = after;
    assert!(n_whole > n_objects && n_objects > 0 && n_left > 0, "{after:?}");
    assert!(n_unread > 0 || !is_long, "{after:?}");
    for (name, first, last) in [("verifier", first[0], last[0]), ("draft", first[1], last[1])] {
        // Two percent, or 16 MB: what threads of libraries keep for themselves varies by some.
        assert!(last <= first + (first / 50).max(16 << 20), "the {name} held {first} bytes, and then {last}");
    }
    let ended = |outcome: &str| pair.verifier.metric("specfleet_verifier_requests_total", outcome);
    assert_eq!(ended(""), ended("finished") + ended("cancelled"), "{}", pair.verifier.log());
    assert!(pair.verifier.metric("specfleet_verifier_draft_tokens_accepted_total", "") > 0.0, "drafts had their part");
}

/// Prompts of different lengths. What follows them in a crowd is what follows them alone, where that is promised.
fn cases(pair: &Pair) -> Vec<Case> {
    let subjects = ["rivers", "a dragon", "prime numbers", "the sea", "bread", "old maps", "rain", "the moon"];
    let case = |subject: &str| {
        let prompt = format!("Here is a short text about {subject}. {subject} ").repeat(1 + subject.len() % 4);
        let ids = post_json(pair.verifier.http, "/tokenize", &json!({"prompt": prompt}))["tokens"].clone();
        let body = json!({"prompt": [ids], "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": true});
        let answer = post_json(pair.verifier.http, "/v1/completions", &body);
        let text = answer["choices"][0]["text"].as_str().unwrap().to_owned();
        Case { prompt: serde_json::from_value(ids).unwrap(), text: Some(text) }
    };
    let promises = pair.promises_equal_bits();
    subjects.map(case).into_iter().map(|case| Case { text: case.text.filter(|_| promises), ..case }).collect()
}

/// What verifier and draft hold in memory once nothing of any request is left in them.
fn settled(pair: &Pair) -> [u64; 2] {
    let limit = Instant::now() + PATIENCE;
    let of_verifier = ["running_requests", "waiting_requests", "kv_blocks_used"];
    let of_draft = ["sessions_open", "memory_tokens"];
    loop {
        let verifier = of_verifier.map(|gauge| pair.verifier.metric(&format!("specfleet_verifier_{gauge}"), ""));
        let draft = of_draft.map(|gauge| pair.draft.metric(&format!("specfleet_draft_{gauge}"), ""));
        if verifier == [0.0; 3] && draft == [0.0; 2] {
            return [&pair.verifier, &pair.draft].map(|service| service.resident_bytes());
        }
        assert!(Instant::now() < limit, "left of requests: {verifier:?} in the verifier, {draft:?} in the draft");
        sleep(Duration::from_millis(20));
    }
}

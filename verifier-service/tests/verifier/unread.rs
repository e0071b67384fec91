//! Clients that leave what they asked for: it takes memory, and must not do so for ever.

use std::time::Duration;

use serde_json::{Value, json};
use specfleet_protocol::{
    status::Reason,
    v1::{GenerateRequest, GenerateResponse, generate_response::Event},
};
use specfleet_verifier_service::Options;
use tokio::{
    io::AsyncReadExt,
    time::{pause, resume, sleep},
};
use tonic::{Status, Streaming};

use crate::support::{LONG, Verifier, greedy_target, options, request};

/// Continuations of a request.
const N: u32 = 8;
/// Tokens of each.
const LENGTH: u32 = 100;
const N_TOKENS: usize = (N * LENGTH) as usize;

/// 3.3 MB of text: less than is kept for a client that does not read, and more than the 2 MB that a connection takes of a
/// stream.
fn long() -> GenerateRequest {
    GenerateRequest { n: N, ..request(&[0], LENGTH) }
}

/// So many requests find their places, and run side by side: all their continuations end at the end of their streams.
fn room_for(n_requests: u32) -> Options {
    Options { max_sequences: (N * n_requests) as usize, max_queue: 0, ..options() }
}

/// The tokens of a stream, and how it ended.
async fn read(mut stream: Streaming<GenerateResponse>) -> (usize, Result<(), Status>) {
    let mut n_tokens = 0;
    loop {
        match stream.message().await {
            Ok(Some(GenerateResponse { event: Some(Event::Committed(round)) })) => n_tokens += round.tokens.len(),
            Ok(Some(_)) => {}
            Ok(None) => return (n_tokens, Ok(())),
            Err(status) => return (n_tokens, Err(status)),
        }
    }
}

/// Why there is no room, if there is none.
async fn refusal(verifier: &Verifier) -> Option<Status> {
    verifier.generate(request(&[0], 1)).await.status
}

/// One thread, so that the clock can be stopped. The connection is alive all the while: it answers pings.
#[tokio::test]
async fn what_an_ended_request_has_left_keeps_its_places_and_is_dropped_after_a_minute() {
    let verifier = Verifier::start(greedy_target(|_| LONG), Vec::new(), room_for(2));
    let (left, taken) = (verifier.stream(long()).await.unwrap(), verifier.stream(long()).await.unwrap());
    let finished = async || verifier.metric("specfleet_verifier_requests_total", "finished") == f64::from(2 * N);
    verifier.until("their ends", finished).await;
    verifier.assert_idle().await;

    let status = refusal(&verifier).await.unwrap();
    assert_eq!(Reason::of(&status), Some(Reason::Overloaded), "{status:?}");
    let (n_tokens, end) = read(taken).await;
    assert_eq!((n_tokens, end.is_ok()), (N_TOKENS, true), "late is not too late");
    assert!(refusal(&verifier).await.is_none(), "its places are free");

    pause();
    sleep(Duration::from_secs(90)).await;
    resume();
    let (n_tokens, end) = read(left).await;
    assert!((1..N_TOKENS).contains(&n_tokens), "what was on its way: {n_tokens}");
    let status = end.unwrap_err();
    assert_eq!(Reason::of(&status), Some(Reason::Overloaded), "{status:?}");
    assert!(status.message().contains("taken nothing for 60s"), "{status:?}");
    verifier.assert_idle().await;
}

/// Whoever leaves everything holds all places at most, however often he asks.
#[tokio::test]
async fn a_client_that_reads_nothing_cannot_make_the_server_hold_more_than_its_places() {
    let verifier = Verifier::start(greedy_target(|_| LONG), Vec::new(), room_for(2));
    let mut left = Vec::new();
    for _ in 0..10 {
        left.extend(verifier.stream(long()).await.ok());
        let ended = async || {
            let finished = verifier.metric("specfleet_verifier_requests_total", "finished");
            finished == f64::from(N) * left.len() as f64
        };
        verifier.until("the ends of all that are let in", ended).await;
    }
    assert_eq!(left.len(), 2);
    drop(left);
    verifier.until("free places", async || refusal(&verifier).await.is_none()).await;
    verifier.assert_idle().await;
}

/// 16 MB, of which the system keeps a part for the connection.
fn in_one_piece() -> Value {
    json!({"prompt": [[0]], "n": N, "max_tokens": 500, "temperature": 0})
}

/// It is collected as it comes about, so that nothing of it waits for its client before its end.
#[tokio::test]
async fn an_answer_in_one_piece_keeps_its_places_until_it_is_written_and_is_dropped_after_a_minute() {
    // Else the text would come faster than it can be collected.
    let target = greedy_target(|_| LONG).with_delay(Duration::from_millis(4));
    let verifier = Verifier::start(target, Vec::new(), room_for(1));
    let http = verifier.serve_http().await;
    let finished = async |n: u32| verifier.metric("specfleet_verifier_requests_total", "finished") == f64::from(n);

    let taken = http.post("/v1/completions", &in_one_piece()).await;
    assert_eq!((taken.status, taken.headers["transfer-encoding"].as_str()), (200, "chunked"));
    verifier.until("its end", async || finished(N).await).await;
    verifier.assert_idle().await;
    assert!(refusal(&verifier).await.is_some(), "it takes memory");
    assert_eq!(taken.json().await["choices"].as_array().unwrap().len(), N as usize, "late is not too late");
    assert!(refusal(&verifier).await.is_none(), "its places are free");

    let mut left = http.post_unread("/v1/completions", &in_one_piece()).await;
    verifier.until("its end", async || finished(2 * N + 1).await).await;
    verifier.assert_idle().await;
    assert!(refusal(&verifier).await.is_some());
    pause();
    sleep(Duration::from_secs(90)).await;
    resume();
    assert!(refusal(&verifier).await.is_none());
    let mut answer = Vec::new();
    // The connection is closed, gently or not.
    let _ = left.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && !answer.ends_with(b"\r\n0\r\n\r\n"), "it breaks off");
}

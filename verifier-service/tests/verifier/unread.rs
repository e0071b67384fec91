//! Clients that leave what they asked for: it takes memory, and must not do so for ever.

use std::time::Duration;

use specfleet_protocol::{
    status::Reason,
    v1::{GenerateRequest, GenerateResponse, generate_response::Event},
};
use specfleet_verifier_service::Options;
use tokio::time::{pause, resume, sleep};
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

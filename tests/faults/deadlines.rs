//! A request's own time runs out while its draft sleeps: it ends then, with what it has, and it has what plain decoding
//! made meanwhile.

use std::time::{Duration, Instant};

use specfleet_client::v1::{GenerateRequest, SpeculationOptions, generate_response::Event};
use specfleet_tests::scripted_pair::{request, settings};
use tonic::{Code, Request};

use crate::support::{certain, plain, serve_draft, serve_verifier, winding};

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_sleeps_costs_its_wait_and_the_deadline_holds() {
    let draft = serve_draft(certain(winding).with_delay(Duration::from_secs(10))).await;
    let target = certain(winding).with_delay(Duration::from_millis(20));
    let verifier = serve_verifier(target, &[draft.address], settings().verifier, Duration::ZERO).await;
    verifier.await_draft(specfleet_client::v1::DraftState::Ready).await;
    let speculation = SpeculationOptions { max_wait_micros: Some(100_000), ..SpeculationOptions::default() };
    let mut timed = Request::new(GenerateRequest { speculation: Some(speculation), ..request(&[1], 1000) });
    timed.set_timeout(Duration::from_secs(1));

    let started = Instant::now();
    let mut events = verifier.raw_client().generate(timed).await.unwrap().into_inner();
    let mut tokens = Vec::new();
    let status = loop {
        match events.message().await {
            Ok(Some(response)) => match response.event.unwrap() {
                Event::Committed(round) => tokens.extend(round.tokens.iter().map(|token| token.token_id)),
                Event::Started(_) => {}
                Event::Finished(finished) => panic!("made up: {finished:?}"),
            },
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => break status,
        }
    };
    let took = started.elapsed();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    assert!((950..2000).contains(&took.as_millis()), "{took:?}");
    // One wait of 100 ms, then 20 ms a token: about 45 in all. Half of it on a busy machine.
    assert!(tokens.len() > 20, "{} tokens", tokens.len());
    assert_eq!(tokens, plain(winding, &[1], tokens.len()));
    verifier.await_idle().await;
}

//! A request's own time runs out while its draft sleeps: it ends then, with what it has, and it has what plain decoding
//! made meanwhile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use specfleet_client::v1::{DraftState, GenerateRequest, SpeculationOptions, generate_response::Event};
use specfleet_tests::{
    http::Stream,
    scripted_pair::{request, settings},
};
use tonic::{Code, Request};

use crate::support::{Served, certain, plain, serve_draft, serve_verifier, winding};

/// A verifier whose step takes 20 ms and whose draft takes ten seconds.
async fn with_sleeping_draft() -> Served {
    let draft = serve_draft(certain(winding).with_delay(Duration::from_secs(10))).await;
    let target = certain(winding).with_delay(Duration::from_millis(20));
    let verifier = serve_verifier(target, &[draft.address], settings().verifier, Duration::ZERO).await;
    verifier.await_draft(DraftState::Ready).await;
    verifier
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_sleeps_costs_its_wait_and_the_deadline_holds() {
    let verifier = with_sleeping_draft().await;
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

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_holds_over_http_in_both_forms_of_an_answer() {
    let verifier = with_sleeping_draft().await;
    for stream in [true, false] {
        let body = json!({
            "prompt": [[1]], "max_tokens": 1000, "temperature": 0, "stream": stream,
            "speculation": {"max_wait_micros": 100_000},
        });
        let started = Instant::now();
        let connection = Stream::open(verifier.http(), "/v1/completions", &[("request-timeout-ms", "1000")], &body);
        let answer = connection.rest();
        let took = started.elapsed();
        assert!((950..2000).contains(&took.as_millis()), "{took:?}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let (text, error) = match stream {
            true => {
                assert!(head.starts_with("HTTP/1.0 200"), "{head}");
                let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
                let mut events: Vec<Value> = events.map(|event| serde_json::from_str(event).unwrap()).collect();
                let last = events.pop().unwrap();
                assert!(events.iter().all(|event| event["choices"][0]["finish_reason"].is_null()), "{answer}");
                let texts = events.iter().filter_map(|event| event["choices"][0]["text"].as_str());
                (texts.collect::<String>(), last["error"].clone())
            }
            false => {
                assert!(head.starts_with("HTTP/1.0 504"), "{head}");
                let body: Value = serde_json::from_str(body).unwrap();
                let choice = &body["partial"]["choices"][0];
                assert!(choice["finish_reason"].is_null());
                (choice["text"].as_str().unwrap().to_owned(), body["error"].clone())
            }
        };
        assert_eq!(error["code"], "deadline_exceeded");
        assert!(text.len() > 20, "{text}");
        let ids: Vec<u32> = text.bytes().map(|letter| u32::from(letter - b'a')).collect();
        assert_eq!(ids, plain(winding, &[1], ids.len()));
        verifier.await_idle().await;
    }
}

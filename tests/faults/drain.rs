//! A verifier that is told to leave: not ready at once, nothing new, and what runs may finish, or hears that it cannot.

use std::time::{Duration, Instant};

use futures::{StreamExt, future::join_all};
use specfleet_client::{Client, Error, Event, Generation};
use specfleet_protocol::status::Reason;
use specfleet_speculation::TokenId;
use specfleet_tests::{
    outcome::Outcome,
    scripted_pair::{request, settings},
};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::support::{Served, certain, connect_lazy, plain, serve_draft, serve_verifier, winding};

const N_STREAMS: u32 = 5;
const STEP: Duration = Duration::from_millis(10);

async fn pair(drain_limit: Duration) -> (Served, Served) {
    let draft = serve_draft(certain(winding)).await;
    let target = certain(winding).with_delay(STEP);
    let verifier = serve_verifier(target, &[draft.address], settings().verifier, drain_limit).await;
    verifier.await_draft(specfleet_client::v1::DraftState::Ready).await;
    (verifier, draft)
}

/// Streams of `n_tokens`, each past its first event.
async fn streams(client: &Client, n_tokens: u32) -> Vec<Generation> {
    let streams = (0..N_STREAMS).map(async |index| {
        let mut stream = client.generate(request(&[index], n_tokens)).await.unwrap();
        assert!(matches!(stream.next().await.unwrap().unwrap(), Event::Started(_)));
        stream
    });
    join_all(streams).await
}

/// All tokens of a stream, and its end.
async fn read(mut stream: Generation) -> (Vec<TokenId>, Result<(), Error>) {
    let mut tokens = Vec::new();
    loop {
        match stream.next().await.expect("no stream ends without a word") {
            Ok(Event::Committed(round)) => tokens.extend(round.tokens.iter().map(|token| token.token_id)),
            Ok(Event::Finished(_)) => return (tokens, Ok(())),
            Ok(Event::Started(_)) => {}
            Err(error) => return (tokens, Err(error)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_run_are_finished_and_nothing_new_is_taken() {
    let (verifier, _draft) = pair(Duration::from_secs(60)).await;
    let client = verifier.client();
    let running = streams(&client, 400).await;
    let mut health = HealthClient::new(connect_lazy(verifier.address));
    let mut watch = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    let begun = Instant::now();
    verifier.shutdown.begin();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // At once, for a busy machine: not when the streams have ended, which is seconds away.
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(verifier.probe("/ready").await, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(verifier.probe("/health").await, "HTTP/1.1 200 OK");
    let refused = Outcome::of(&verifier.client(), request(&[1], 5)).await.unwrap_err();
    match &refused {
        // The port is closed, or the call still got in and was turned away.
        Error::ConnectionLost { .. } => {}
        Error::Refused(refusal) => assert_eq!(refusal.code, Code::Unavailable, "{refusal:?}"),
        other => panic!("{other:?}"),
    }
    for (index, (tokens, end)) in (0..).zip(join_all(running.into_iter().map(read)).await) {
        end.unwrap();
        assert_eq!(tokens, plain(winding, &[index], 400));
    }
    verifier.serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_outlast_the_limit_are_told_so() {
    let (verifier, _draft) = pair(Duration::from_millis(300)).await;
    let running = streams(&verifier.client(), 4000).await;
    verifier.shutdown.begin();
    for (index, (tokens, end)) in (0..).zip(join_all(running.into_iter().map(read)).await) {
        assert!(!tokens.is_empty() && tokens.len() < 4000);
        assert_eq!(tokens, plain(winding, &[index], tokens.len()), "what came before the end is right");
        match end {
            Err(Error::Refused(refusal)) => {
                assert_eq!((refusal.code, refusal.reason), (Code::Unavailable, Some(Reason::Draining)));
            }
            other => panic!("not told: {other:?}"),
        }
    }
    verifier.serving.await.unwrap();
}

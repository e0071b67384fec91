//! The clock is paused: it jumps to the next timer whenever nothing else can happen.

use std::time::Duration;

use specfleet_protocol::{status::Reason, v1, v1::draft_service_client::DraftServiceClient};
use tokio::time::Instant;
use tonic::{Code, Status, body::Body};
use tower::{Layer, ServiceExt};

use super::fake::{self, Session};
use crate::{
    Readiness, Shutdown,
    serve::{drain::Drain, lifetime::LifetimeLayer},
};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn without_calls_it_is_over_at_once() {
    let running = fake::start(LIMIT);
    fake::label(running.channel.clone()).await;
    let begun = Instant::now();
    running.shutdown.begin();
    running.serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn running_calls_go_on_and_new_ones_are_refused() {
    let running = fake::start(LIMIT);
    let mut session = Session::open(running.channel.clone(), None).await.unwrap();
    session.ask().await.unwrap();

    running.shutdown.begin();
    tokio::time::sleep(LIMIT / 2).await;
    assert!(!running.serving.is_finished());
    let mut client = DraftServiceClient::new(running.channel.clone());
    let refused = client.get_identity(v1::DraftServiceGetIdentityRequest::default()).await.unwrap_err();
    // On the connection that is going away, or on a new one that nobody accepts.
    assert!(matches!(refused.code(), Code::Cancelled | Code::Unavailable), "{refused:?}");
    session.ask().await.unwrap();

    let begun = Instant::now();
    session.close().await;
    running.serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// A call that crosses the news on the wire is told to go elsewhere, and probes are answered to the last.
#[tokio::test]
async fn calls_on_a_draining_connection_are_refused_with_a_reason() {
    let shutdown = Shutdown::new(LIMIT);
    let layer = LifetimeLayer::new(Drain::new(Readiness::new(), shutdown.clone()));
    let served = tower::service_fn(async |_| Ok(Status::ok("").into_http()));
    let ask = async |path| {
        let request = http::Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = layer.layer(served).oneshot(request).await.unwrap();
        Status::from_header_map(response.headers()).unwrap()
    };
    assert_eq!(ask("/specfleet.v1.DraftService/Propose").await.code(), Code::Ok);
    shutdown.begin();
    let refused = ask("/specfleet.v1.DraftService/Propose").await;
    assert_eq!(Reason::of(&refused), Some(Reason::Draining));
    assert_eq!(ask("/grpc.health.v1.Health/Check").await.code(), Code::Ok);
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_limit_is_told_so() {
    let running = fake::start(LIMIT);
    let mut session = Session::open(running.channel.clone(), None).await.unwrap();
    session.ask().await.unwrap();
    let begun = Instant::now();
    running.shutdown.begin();

    let status = session.ended().await;
    assert_eq!(Reason::of(&status), Some(Reason::Draining), "{status:?}");
    assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    running.serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < LIMIT + Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_its_deadline_with_a_reason() {
    let running = fake::start(LIMIT);
    let timeout = Duration::from_secs(7);
    let begun = Instant::now();
    let mut session = Session::open(running.channel.clone(), Some(timeout)).await.unwrap();
    assert_eq!(session.ask().await.unwrap(), "Some(7s)");
    let status = session.ended().await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(Reason::of(&status), Some(Reason::Deadline), "{status:?}");
    assert_eq!(begun.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_stream_may_be_silent_for_hours() {
    let running = fake::start(LIMIT);
    let mut session = Session::open(running.channel.clone(), None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert_eq!(session.ask().await.unwrap(), "None");
}

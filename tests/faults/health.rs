//! What a verifier says about itself to those who send it work, or restart it.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all};
use specfleet_client::{Client, Error, Event, v1::DraftState};
use specfleet_protocol::channel;
use specfleet_service::Metrics;
use specfleet_tests::{
    outcome::Outcome,
    proxy::Proxy,
    scripted_pair::{loaded, request, settings},
};
use specfleet_verifier_service::Service;
use tokio::{
    sync::RwLock,
    time::{Instant, sleep, timeout},
};
use tonic::{Code, transport::Server};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};

use crate::support::{
    PATIENCE, STALL_LIMIT, Served, certain, connect_lazy, plain, serve_draft, serve_verifier, until, winding,
};

/// By gRPC and by HTTP, which must agree.
async fn is_ready(service: &Served) -> bool {
    let mut health = HealthClient::new(connect_lazy(service.address));
    let by_grpc = health.check(HealthCheckRequest::default()).await.unwrap().into_inner().status();
    let by_http = service.probe("/ready").await;
    // Readiness may change between the two questions; then they are asked again.
    match (by_grpc, &*by_http) {
        (ServingStatus::Serving, "HTTP/1.1 200 OK") => true,
        (ServingStatus::NotServing, "HTTP/1.1 503 Service Unavailable") => false,
        _ => Box::pin(is_ready(service)).await,
    }
}

/// Alive: the process answers.
async fn assert_alive(service: &Served) {
    assert_eq!(service.probe("/health").await, "HTTP/1.1 200 OK");
    service.client().identity().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_hangs_is_unready_but_alive_until_it_moves_again() {
    // The engine reads it at every row; who writes holds it up.
    let door = Arc::new(RwLock::new(()));
    let doorway = door.clone();
    let target = certain(move |prefix| {
        let _open = doorway.blocking_read();
        winding(prefix)
    });
    let verifier = serve_verifier(target, &[], settings().verifier, Duration::ZERO).await;
    assert!(is_ready(&verifier).await, "nothing to do is no stall");
    let hang = async {
        until("the request runs", async || verifier.metric("specfleet_verifier_rounds_total", "") > 5.0).await;
        let closed = door.write().await;
        let since = Instant::now();
        until("it is not ready", async || !is_ready(&verifier).await).await;
        let took = since.elapsed();
        assert!(took > STALL_LIMIT * 3 / 4, "{took:?}");
        assert_alive(&verifier).await;
        drop(closed);
        until("it is ready again", async || is_ready(&verifier).await).await;
    };
    let client = verifier.client();
    let (outcome, ()) = tokio::join!(Outcome::of(&client, request(&[1], 2000)), hang);
    assert_eq!(outcome.unwrap().token_ids(), plain(winding, &[1], 2000));
    sleep(2 * STALL_LIMIT).await;
    assert!(is_ready(&verifier).await, "nothing to do is no stall, afterwards too");
}

/// A fault that ends the engine's thread: whoever waits hears of it, and the process can end, to be started again.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_ends_takes_the_process_with_it_and_tells_its_clients() {
    let target = certain(|prefix| if prefix.len() < 8 { winding(prefix) } else { panic!("on purpose") });
    let metrics = Metrics::local().unwrap();
    let service = Service::start(loaded(target), Vec::new(), settings().verifier, &metrics.meter()).unwrap();
    let (channel, incoming) = channel::in_memory();
    tokio::spawn(Server::builder().add_service(service.grpc()).serve_with_incoming(incoming));
    let client = Client::from_channel(channel, "in memory");
    let mut events = client.generate(request(&[1], 50)).await.unwrap();
    let error = loop {
        match events.next().await.expect("no stream ends without a word") {
            Ok(Event::Finished(finished)) => panic!("made up: {finished:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Refused(refusal) if refusal.code == Code::Internal), "{error:?}");
    timeout(PATIENCE, service.ended()).await.expect("who runs the service hears of it");
}

/// A draft's engine that hangs: the draft says so itself, and the verifier goes on without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_that_hangs_is_unready_and_not_missed() {
    let draft = serve_draft(certain(winding).with_delay(Duration::from_secs(3))).await;
    let mut options = settings().verifier;
    options.draft_wait = Duration::from_millis(50);
    let verifier = serve_verifier(certain(winding), &[draft.address], options, Duration::ZERO).await;
    verifier.await_draft(DraftState::Ready).await;
    let outcome = Outcome::of(&verifier.client(), request(&[1], 20)).await.unwrap();
    assert_eq!(outcome.token_ids(), plain(winding, &[1], 20));
    until("the draft is not ready", async || !is_ready(&draft).await).await;
    assert!(is_ready(&verifier).await);
    until("the draft is ready again", async || is_ready(&draft).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_busy_and_not_stuck() {
    let mut options = settings().verifier;
    (options.max_sequences, options.max_queue) = (1, 8);
    let target = certain(winding).with_delay(Duration::from_millis(20));
    let verifier = serve_verifier(target, &[], options, Duration::ZERO).await;
    let client = verifier.client();
    let busy = join_all((0..9).map(|index| Outcome::of(&client, request(&[index], 10))));
    let looking = async {
        let until = Instant::now() + 4 * STALL_LIMIT;
        while Instant::now() < until {
            assert!(is_ready(&verifier).await);
            assert_alive(&verifier).await;
            sleep(STALL_LIMIT / 10).await;
        }
    };
    let (outcomes, ()) = tokio::join!(busy, looking);
    assert!(outcomes.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_draft_it_is_ready_and_says_that_it_is_degraded() {
    let draft = serve_draft(certain(winding)).await;
    let network = Proxy::start(draft.address).await;
    let verifier = serve_verifier(certain(winding), &[network.address], settings().verifier, Duration::ZERO).await;
    let drafts = |state: &str| verifier.metric("specfleet_verifier_drafts", state);
    verifier.await_draft(DraftState::Ready).await;
    assert_eq!((drafts("\"ready\""), drafts("unreachable")), (1.0, 0.0));
    network.cut();
    // It shows at the next look, or at the next request.
    Outcome::of(&verifier.client(), request(&[1], 20)).await.unwrap();
    verifier.await_draft(DraftState::Unreachable).await;
    assert_eq!((drafts("\"ready\""), drafts("unreachable")), (0.0, 1.0));
    assert!(is_ready(&verifier).await);
    assert_alive(&verifier).await;
}

//! What HTTP/2 does to long streams: frequent pings, peers that vanish without a word, connections that are told to go.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures::StreamExt;
use specfleet_client::{Client, Error, Event, Generation};
use specfleet_protocol::channel::{self, ChannelOptions};
use specfleet_tests::{
    outcome::Outcome,
    proxy::Proxy,
    scripted_pair::{request, settings},
};

use crate::support::{Served, certain, plain, serve_verifier, until, winding};

async fn verifier(step: Duration, drain_limit: Duration) -> Served {
    serve_verifier(certain(winding).with_delay(step), &[], settings().verifier, drain_limit).await
}

/// A client that asks for a sign of life this often.
fn client(address: SocketAddr, interval: Duration) -> Client {
    let options = ChannelOptions {
        keepalive_interval: interval,
        keepalive_timeout: Duration::from_secs(1),
        ..ChannelOptions::default()
    };
    Client::from_channel(channel::connect_lazy(&address.to_string(), &options).unwrap(), address.to_string())
}

async fn first_event(generation: &mut Generation) -> Event {
    generation.next().await.expect("an event").unwrap()
}

/// A prefill of many seconds, and a client that pings all the while: the server must not take the pings for an attack.
#[tokio::test(flavor = "multi_thread")]
async fn frequent_pings_do_not_end_a_silent_call() {
    let long = std::env::var_os("SPECFLEET_TEST_LONG").is_some();
    let (silence, interval) = match long {
        true => (Duration::from_secs(30), Duration::from_secs(1)),
        false => (Duration::from_secs(3), Duration::from_millis(20)),
    };
    let verifier = verifier(silence, Duration::ZERO).await;
    let outcome = Outcome::of(&client(verifier.address, interval), request(&[1], 1)).await.unwrap();
    assert_eq!(outcome.token_ids(), plain(winding, &[1], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_vanishes_is_noticed_within_interval_and_timeout() {
    let verifier = verifier(Duration::from_millis(5), Duration::ZERO).await;
    let network = Proxy::start(verifier.address).await;
    let mut generation =
        client(network.address, Duration::from_millis(200)).generate(request(&[1], 4000)).await.unwrap();
    first_event(&mut generation).await;
    network.freeze();
    let since = Instant::now();
    let error = loop {
        match generation.next().await.expect("no stream ends without a word") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let took = since.elapsed();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error:?}");
    assert!(took < Duration::from_secs(4), "interval and timeout are 1.2 s: {took:?}");
    // The server's side of it, by its own pings, is the transport's as well: 10 s and 10 s. Here the network ends sooner.
    network.cut();
    verifier.await_idle().await;
}

/// A server that leaves tells its connections to go: what runs on them is finished, and new calls make a new connection,
/// here to the server that took its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_told_to_go_finishes_and_is_replaced() {
    let old = verifier(Duration::from_millis(5), Duration::from_secs(60)).await;
    let client = old.client();
    let mut running = client.generate(request(&[1], 400)).await.unwrap();
    first_event(&mut running).await;
    old.shutdown.begin();
    let successor = serve_at(old.address).await;
    until("calls reach the successor", async || {
        let outcome = Outcome::of(&client, request(&[2], 10)).await;
        outcome.is_ok_and(|outcome| outcome.token_ids() == plain(winding, &[2], 10))
    })
    .await;
    let mut tokens = Vec::new();
    while let Some(event) = running.next().await {
        if let Event::Committed(round) = event.unwrap() {
            tokens.extend(round.tokens.iter().map(|token| token.token_id));
        }
    }
    assert_eq!(tokens, plain(winding, &[1], 400));
    old.serving.await.unwrap();
    drop(successor);
}

/// Another verifier where the old one was, once the address is free.
async fn serve_at(address: SocketAddr) -> Proxy {
    let successor = verifier(Duration::ZERO, Duration::ZERO).await;
    Proxy::start_at(address, successor.address).await
}

#![allow(clippy::unwrap_used)]
mod drain;
mod fake;
mod health;
mod observed;

use std::time::Duration;

use super::*;

#[tokio::test]
async fn a_port_in_use_says_which_and_how_to_choose_another() {
    let first = bind(([127, 0, 0, 1], 0).into(), "--listen", "SPECFLEET_LISTEN").await.unwrap();
    let address = first.local_addr().unwrap();
    let text = bind(address, "--listen", "SPECFLEET_LISTEN").await.unwrap_err().to_string();
    for part in [&*address.to_string(), "--listen", "SPECFLEET_LISTEN", "stop the process that has it"] {
        assert!(text.contains(part), "{part} not in: {text}");
    }
}

#[tokio::test]
async fn a_connection_does_not_wait_for_ever_for_a_peer_that_takes_nothing() {
    let listener = bind(([127, 0, 0, 1], 0).into(), "--listen", "SPECFLEET_LISTEN").await.unwrap();
    let _peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (connection, _) = listener.accept().await.unwrap();
    assert_eq!(SockRef::from(&connection).tcp_user_timeout().unwrap(), Some(UNTAKEN_TIMEOUT));
}

#[tokio::test]
async fn serves_tcp_too() {
    let listener = bind(([127, 0, 0, 1], 0).into(), "--listen", "SPECFLEET_LISTEN").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let shutdown = Shutdown::new(Duration::from_secs(5));
    let server =
        GrpcServer::new(Readiness::new(), shutdown.clone(), &Metrics::local().unwrap()).add_service(fake::service());
    let serving = tokio::spawn(server.serve(listener));
    let channel = specfleet_protocol::channel::connect_lazy(&address, &Default::default()).unwrap();
    assert_eq!(fake::label(channel).await, "fake");
    shutdown.begin();
    serving.await.unwrap().unwrap();
}

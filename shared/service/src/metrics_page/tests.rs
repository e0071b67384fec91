#![allow(clippy::unwrap_used)]
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

use super::*;

/// Status line and body of a GET.
async fn get_page(address: std::net::SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: page\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn shows_counters_and_readiness() {
    let metrics = Metrics::local().unwrap();
    let tokens = metrics.meter().u64_counter("specfleet.tokens.accepted").build();
    tokens.add(3, &[]);
    let seconds = metrics.meter().f64_histogram("specfleet.round.duration").with_unit("s").build();
    seconds.record(0.25, &[]);

    let readiness = Readiness::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let page = MetricsPage::new(&metrics, readiness.clone());
    let serving = tokio::spawn(page.serve(listener, async {
        let _ = ended.await;
    }));

    let (status, body) = get_page(address, "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("\nspecfleet_tokens_accepted_total 3\n"), "{body}");
    assert!(body.contains("\nspecfleet_round_duration_seconds_sum 0.25\n"), "{body}");

    assert_eq!(get_page(address, "/health").await.0, "HTTP/1.1 200 OK");
    assert_eq!(get_page(address, "/ready").await.0, "HTTP/1.1 503 Service Unavailable");
    readiness.set_ready();
    assert_eq!(get_page(address, "/ready").await.0, "HTTP/1.1 200 OK");
    readiness.set_draining();
    assert_eq!(get_page(address, "/ready").await.0, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(get_page(address, "/health").await.0, "HTTP/1.1 200 OK");

    end.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

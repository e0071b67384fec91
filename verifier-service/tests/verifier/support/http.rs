//! A client that sees what a real one sees, byte for byte: HTTP/1.1 over a socket.

use std::{collections::BTreeMap, net::SocketAddr};

use serde_json::Value;
use specfleet_verifier_service::Http;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use super::Verifier;

/// Where a face is served.
#[derive(Clone, Copy)]
pub(crate) struct HttpClient {
    address: SocketAddr,
}

/// An answer whose body is still to be read. Dropping it closes the connection.
pub(crate) struct Reply {
    connection: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    /// What has come of the body and is not yet used.
    held: String,
    is_over: bool,
}

impl Verifier {
    /// Serves its HTTP face on a port.
    pub(crate) async fn serve_http(&self) -> HttpClient {
        let (listener, client) = listen().await;
        self.http_servers.spawn(self.http.clone().serve(listener));
        client
    }
}

impl HttpClient {
    pub(crate) async fn serve(http: Http) -> Self {
        let (listener, client) = listen().await;
        tokio::spawn(http.serve(listener));
        client
    }

    /// Posts JSON and waits for the head of the answer.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        connection.write_all(head.as_bytes()).await.unwrap();
        connection.write_all(body.as_bytes()).await.unwrap();
        Reply::read(BufReader::new(connection)).await
    }

    /// Sends a head that speaks of a body, and waits for the answer without sending one.
    pub(crate) async fn announce(&self, path: &str, header: &str) -> Reply {
        Reply::read(BufReader::new(self.begin(path, header).await)).await
    }

    /// Sends the same, and waits for nothing.
    pub(crate) async fn begin(&self, path: &str, header: &str) -> TcpStream {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\n{header}\r\nconnection: close\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        connection
    }

    /// Posts JSON and leaves without waiting for anything.
    pub(crate) async fn post_unread(&self, path: &str, body: &Value) -> TcpStream {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let body = body.to_string();
        let call = format!("POST {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(call.as_bytes()).await.unwrap();
        connection
    }
}

impl Reply {
    async fn read(mut connection: BufReader<TcpStream>) -> Self {
        let status = line(&mut connection).await;
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = BTreeMap::new();
        loop {
            let header = line(&mut connection).await;
            let Some((name, value)) = header.split_once(": ") else { break };
            headers.insert(name.to_owned(), value.to_owned());
        }
        Self { connection, status, headers, held: String::new(), is_over: false }
    }

    /// The whole body, as JSON.
    pub(crate) async fn json(mut self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The rest of the body.
    pub(crate) async fn text(&mut self) -> String {
        while self.more().await {}
        std::mem::take(&mut self.held)
    }

    /// The data of the next server-sent event; `None` at the end of the stream. Comments are passed over.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.held.split_once("\n\n") {
                let data = event.strip_prefix("data: ").map(str::to_owned);
                self.held = rest.to_owned();
                match data {
                    Some(data) => return Some(data),
                    None => continue,
                }
            }
            if !self.more().await {
                assert_eq!(self.held, "", "an event is cut short");
                return None;
            }
        }
    }

    /// All further events.
    pub(crate) async fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }

    /// Reads the next chunk, or all of a body without chunks.
    async fn more(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let mut bytes = Vec::new();
        if self.headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
            let size = usize::from_str_radix(&line(&mut self.connection).await, 16).unwrap();
            self.is_over = size == 0;
            bytes.resize(size, 0);
            self.connection.read_exact(&mut bytes).await.unwrap();
            line(&mut self.connection).await;
        } else {
            self.is_over = true;
            self.connection.read_to_end(&mut bytes).await.unwrap();
        }
        self.held += &String::from_utf8(bytes).unwrap();
        true
    }
}

async fn listen() -> (TcpListener, HttpClient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, HttpClient { address })
}

async fn line(connection: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    connection.read_line(&mut line).await.unwrap();
    line.trim_end().to_owned()
}

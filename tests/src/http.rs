//! HTTP as plain as it gets: one call a connection, the whole answer at once.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

/// An answer on its way.
pub struct Stream {
    connection: BufReader<TcpStream>,
    received: String,
}

impl Stream {
    /// Posts JSON, with more headers, and reads nothing yet.
    pub fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &Value) -> Self {
        let body = body.to_string();
        let mut call = format!("POST {path} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            call += &format!("{name}: {value}\r\n");
        }
        call += "\r\n";
        call += &body;
        let mut connection = TcpStream::connect(address).expect("something listens there");
        connection.write_all(call.as_bytes()).expect("the call can be sent");
        Self { connection: BufReader::new(connection), received: String::new() }
    }

    /// Reads lines up to one that begins like this.
    pub fn wait_for(&mut self, beginning: &str) {
        loop {
            let start = self.received.len();
            let length = self.connection.read_line(&mut self.received).expect("the answer is text");
            assert!(length > 0, "no line begins with {beginning:?}: {}", self.received);
            if self.received[start..].starts_with(beginning) {
                return;
            }
        }
    }

    /// The next event of a stream; `None` where `[DONE]` or the end of the stream has come.
    pub fn event(&mut self) -> Option<Value> {
        loop {
            self.received.clear();
            if self.connection.read_line(&mut self.received).expect("the answer is text") == 0 {
                return None;
            }
            if let Some(data) = self.received.strip_prefix("data: ").map(str::trim_end) {
                return (data != "[DONE]").then(|| serde_json::from_str(data).expect("JSON"));
            }
        }
    }

    /// The whole answer, with its head, what was read before included.
    pub fn rest(mut self) -> String {
        self.connection.read_to_string(&mut self.received).expect("the answer is text");
        self.received
    }
}

/// Posts JSON; the status and the body, as they come over the wire.
pub fn post(address: SocketAddr, path: &str, body: &Value) -> (u16, String) {
    answer(Stream::open(address, path, &[], body))
}

/// The body at a path.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("something listens there");
    let call = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n");
    connection.write_all(call.as_bytes()).expect("the call can be sent");
    let (status, body) = answer(Stream { connection: BufReader::new(connection), received: String::new() });
    assert_eq!(status, 200, "{body}");
    body
}

fn answer(stream: Stream) -> (u16, String) {
    let answer = stream.rest();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// Posts JSON that must be answered by JSON.
pub fn post_json(address: SocketAddr, path: &str, body: &Value) -> Value {
    let (status, answer) = post(address, path, body);
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).expect("JSON")
}

/// The JSON of a stream of events, which must end with `[DONE]`.
pub fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut data: Vec<&str> = data.collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{body}");
    data.into_iter().map(|event| serde_json::from_str(event).expect("JSON")).collect()
}

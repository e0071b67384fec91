//! One request over either face: how it is sent, how much of its answer is read, and what that must be.

use std::{net::SocketAddr, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};
use specfleet_client::{
    Client, Event,
    v1::{GenerateRequest, SamplingParams, TokenIds, generate_request::Prompt},
};
use tokio::{task::spawn_blocking, time::sleep};

use super::{Case, Outcome, Traffic};
use crate::http::Stream;

pub(super) struct Call {
    pub(super) asked: Asked,
    pub(super) max_tokens: usize,
    pub(super) way: Way,
    /// Events after which the client leaves; `None` is to stay.
    pub(super) stay: Option<usize>,
    /// How long a client that reads nothing waits before it leaves.
    pub(super) patience: Duration,
}

/// What is asked for.
pub(super) enum Asked {
    /// What follows a prompt, as long as it may be.
    Text(Case),
    /// An object of a small schema, in a chat. Over HTTP only.
    Object,
}

#[derive(Clone, Copy)]
pub(super) enum Way {
    Grpc,
    HttpStream,
    HttpWhole,
}

/// An answer that was read to its end.
#[derive(Default)]
struct Answer {
    text: String,
    n_tokens: usize,
    /// Whether it ended by itself, and not at the limit.
    has_stopped: bool,
}

impl Call {
    pub(super) async fn make(self, traffic: &Traffic) -> Outcome {
        let answer = match self.way {
            Way::Grpc => self.over_grpc(&traffic.client).await,
            Way::HttpStream | Way::HttpWhole => self.over_http(traffic.http).await,
        };
        match answer {
            Some(answer) => self.asked.check(&answer, self.max_tokens),
            None => Outcome::Left,
        }
    }

    async fn over_grpc(&self, client: &Client) -> Option<Answer> {
        let Asked::Text(case) = &self.asked else { panic!("objects are asked for over HTTP") };
        let request = GenerateRequest {
            prompt: Some(Prompt::TokenIds(TokenIds { ids: case.prompt.clone() })),
            sampling: Some(SamplingParams { temperature: Some(0.0), ..SamplingParams::default() }),
            max_tokens: Some(self.max_tokens as u32),
            ignore_eos: true,
            ..GenerateRequest::default()
        };
        let mut events = client.generate(request).await.unwrap_or_else(|error| panic!("refused: {error}"));
        if self.stay == Some(0) {
            sleep(self.patience).await;
            return None;
        }
        let (mut answer, mut n_events) = (Answer::default(), 0);
        while let Some(event) = events.next().await {
            match event.unwrap_or_else(|error| panic!("broken off: {error}")) {
                Event::Started(_) | Event::Finished(_) => {}
                Event::Committed(round) => {
                    answer.n_tokens += round.tokens.len();
                    answer.text.extend(round.tokens.into_iter().map(|token| token.text));
                }
            }
            n_events += 1;
            if self.stay == Some(n_events) {
                return None;
            }
        }
        Some(answer)
    }

    async fn over_http(&self, address: SocketAddr) -> Option<Answer> {
        let is_stream = matches!(self.way, Way::HttpStream);
        let (path, mut body) = self.asked.over_http();
        let more = [
            ("max_tokens", json!(self.max_tokens)),
            ("temperature", json!(0)),
            ("stream", json!(is_stream)),
            ("stream_options", json!({"include_usage": true})),
        ];
        for (field, value) in more {
            body[field] = value;
        }
        let stay = self.stay.filter(|&n_events| is_stream || n_events == 0);
        let connection = spawn_blocking(move || Stream::open(address, path, &[], &body)).await;
        let connection = connection.expect("the call can be sent");
        if stay == Some(0) {
            sleep(self.patience).await;
            return None;
        }
        let read =
            spawn_blocking(move || if is_stream { read_stream(connection, stay) } else { Some(whole(connection)) });
        read.await.expect("the answer can be read")
    }
}

impl Asked {
    /// Where it is asked for, and the fields that ask for it.
    fn over_http(&self) -> (&'static str, Value) {
        match self {
            Self::Text(case) => ("/v1/completions", json!({"prompt": [case.prompt], "ignore_eos": true})),
            Self::Object => {
                let properties = json!({"is_large": {"type": "boolean"}, "kind": {"enum": ["city", "river", "sea"]}});
                let schema = json!({
                    "type": "object", "properties": properties, "required": ["is_large", "kind"],
                    "additionalProperties": false,
                });
                let format = json!({"type": "json_schema", "json_schema": {"name": "place", "schema": schema}});
                let messages = json!([{"role": "user", "content": "Describe Paris as a small JSON object."}]);
                ("/v1/chat/completions", json!({"messages": messages, "response_format": format}))
            }
        }
    }

    fn check(&self, Answer { text, n_tokens, has_stopped }: &Answer, max_tokens: usize) -> Outcome {
        match self {
            Self::Object if *has_stopped => {
                let object: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
                assert!(object["is_large"].is_boolean() && object["kind"].is_string(), "{object}");
                return Outcome::Object;
            }
            Self::Text(Case { prompt, text: Some(expected) }) => {
                // The last character may have been cut in two.
                let text = text.trim_end_matches('\u{FFFD}');
                assert!(expected.starts_with(text), "{prompt:?} went on with {text:?}");
            }
            Self::Object | Self::Text(_) => {}
        }
        assert_eq!(*n_tokens, max_tokens, "{text}");
        Outcome::Text
    }
}

/// The answer of a stream, if it was read to its end.
fn read_stream(mut connection: Stream, stay: Option<usize>) -> Option<Answer> {
    let (mut answer, mut n_events) = (Answer::default(), 0);
    while let Some(event) = connection.event() {
        assert_eq!(event.get("error"), None);
        answer.add(&event);
        n_events += 1;
        if stay == Some(n_events) {
            return None;
        }
    }
    Some(answer)
}

fn whole(connection: Stream) -> Answer {
    let received = connection.rest();
    let (_, body) = received.split_once("\r\n\r\n").expect("a head and a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert!(body["choices"].is_array(), "no answer: {body}");
    let mut answer = Answer::default();
    answer.add(&body);
    answer
}

impl Answer {
    /// Adds what a chunk holds, or an answer in one piece.
    fn add(&mut self, object: &Value) {
        let choice = &object["choices"][0];
        let texts = [&choice["text"], &choice["delta"]["content"], &choice["message"]["content"]];
        self.text.extend(texts.into_iter().filter_map(Value::as_str));
        self.has_stopped |= choice["finish_reason"] == "stop";
        self.n_tokens += object["usage"]["completion_tokens"].as_u64().unwrap_or(0) as usize;
    }
}

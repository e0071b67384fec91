//! Many clients at a time, for as long as a test likes: over both faces, in both forms of an answer, and a part of them
//! leaves, before anything has come, in the middle, or after it has let an answer lie unread for seconds.
//!
//! What they do follows from a seed, except for how far each gets until the time is up. Every answer that is read to its
//! end is checked: it is whole, as long as it was asked for, and its text is the one that the prompt has.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all};
use serde_json::{Value, json};
use specfleet_client::{
    Client, Event,
    v1::{GenerateRequest, SamplingParams, TokenIds, generate_request::Prompt},
};
use specfleet_speculation::TokenId;
use tokio::{task::spawn_blocking, time::sleep};

use crate::http::Stream;

const COMPLETIONS: &str = "/v1/completions";
/// How long somebody who leaves without reading stays at most, in milliseconds.
const LONGEST_STAY: u64 = 100;
/// How long somebody stays who has forgotten to read: longer than the answer takes.
const FORGETFUL_STAY: Duration = Duration::from_secs(8);

/// What the clients do.
#[derive(Clone)]
pub struct Traffic {
    /// Talks gRPC to the verifier.
    pub client: Client,
    /// The verifier's address for HTTP.
    pub http: SocketAddr,
    /// Clients at a time.
    pub n_streams: usize,
    /// What they ask for.
    pub cases: Vec<Case>,
    /// The most tokens of an answer.
    pub max_tokens: usize,
}

/// A prompt, and what follows it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The prompt.
    pub prompt: Vec<TokenId>,
    /// Its greedy continuation, at least as long as an answer may be; `None` where that is not certain.
    pub text: Option<String>,
}

/// What has been done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers that were read to their end.
    pub n_whole: usize,
    /// Clients that left before.
    pub n_left: usize,
}

/// One request.
struct Call {
    case: Case,
    max_tokens: usize,
    way: Way,
    /// Events after which the client leaves; `None` is to stay.
    stay: Option<usize>,
    /// How long a client that reads nothing waits before it leaves.
    patience: Duration,
}

#[derive(Clone, Copy)]
enum Way {
    Grpc,
    HttpStream,
    HttpWhole,
}

impl Traffic {
    /// Keeps all clients busy for so long, and then waits for their last answers.
    pub async fn run(&self, seed: u64, time: Duration) -> Tally {
        let until = Instant::now() + time;
        let clients = (0..self.n_streams as u64).map(|index| {
            let (traffic, dice) = (self.clone(), Dice(seed.wrapping_mul(1000) + index));
            tokio::spawn(async move { traffic.be_client(dice, until).await })
        });
        let tallies = join_all(clients).await;
        tallies.into_iter().fold(Tally::default(), |sum, tally| {
            let Tally { n_whole, n_left } = tally.expect("no client has failed");
            Tally { n_whole: sum.n_whole + n_whole, n_left: sum.n_left + n_left }
        })
    }

    async fn be_client(&self, mut dice: Dice, until: Instant) -> Tally {
        let mut tally = Tally::default();
        while Instant::now() < until {
            let case = self.cases[dice.below(self.cases.len() as u64) as usize].clone();
            let way = [Way::Grpc, Way::HttpStream, Way::HttpWhole][dice.below(3) as usize];
            // A third leaves, a part of these without reading.
            let stay = (dice.below(3) == 0).then(|| dice.below(6) as usize);
            let max_tokens = 1 + dice.below(self.max_tokens as u64) as usize;
            let is_forgetful = dice.below(4) == 0;
            let patience = if is_forgetful { FORGETFUL_STAY } else { Duration::from_millis(dice.below(LONGEST_STAY)) };
            let call = Call { case, max_tokens, way, stay, patience };
            match call.make(self).await {
                true => tally.n_whole += 1,
                false => tally.n_left += 1,
            }
        }
        tally
    }
}

impl Call {
    /// Whether the answer was read to its end.
    async fn make(self, traffic: &Traffic) -> bool {
        let text = match self.way {
            Way::Grpc => self.over_grpc(&traffic.client).await,
            Way::HttpStream | Way::HttpWhole => self.over_http(traffic.http).await,
        };
        if let (Some(text), Some(expected)) = (&text, &self.case.text) {
            // The last character may have been cut in two.
            let text = text.trim_end_matches('\u{FFFD}');
            assert!(expected.starts_with(text), "{:?} went on with {text:?}", self.case.prompt);
        }
        text.is_some()
    }

    /// The text, if it was read to its end.
    async fn over_grpc(&self, client: &Client) -> Option<String> {
        let request = GenerateRequest {
            prompt: Some(Prompt::TokenIds(TokenIds { ids: self.case.prompt.clone() })),
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
        let (mut text, mut n_tokens, mut n_events) = (String::new(), 0, 0);
        while let Some(event) = events.next().await {
            match event.unwrap_or_else(|error| panic!("broken off: {error}")) {
                Event::Started(_) | Event::Finished(_) => {}
                Event::Committed(round) => {
                    n_tokens += round.tokens.len();
                    text.extend(round.tokens.into_iter().map(|token| token.text));
                }
            }
            n_events += 1;
            if self.stay == Some(n_events) {
                return None;
            }
        }
        assert_eq!(n_tokens, self.max_tokens);
        Some(text)
    }

    async fn over_http(&self, address: SocketAddr) -> Option<String> {
        let is_stream = matches!(self.way, Way::HttpStream);
        let body = json!({
            "prompt": [self.case.prompt], "max_tokens": self.max_tokens, "temperature": 0, "ignore_eos": true,
            "stream": is_stream, "stream_options": {"include_usage": true},
        });
        let stay = self.stay.filter(|&n_events| is_stream || n_events == 0);
        let connection = spawn_blocking(move || Stream::open(address, COMPLETIONS, &[], &body)).await;
        let connection = connection.expect("the call can be sent");
        if stay == Some(0) {
            sleep(self.patience).await;
            return None;
        }
        let read =
            spawn_blocking(move || if is_stream { read_stream(connection, stay) } else { Some(whole(connection)) });
        let (text, n_tokens) = read.await.expect("the answer can be read")?;
        assert_eq!(n_tokens, Some(self.max_tokens as u64));
        Some(text)
    }
}

/// Text and number of tokens of a stream, if it was read to its end.
fn read_stream(mut connection: Stream, stay: Option<usize>) -> Option<(String, Option<u64>)> {
    let (mut text, mut n_tokens, mut n_events) = (String::new(), None, 0);
    while let Some(event) = connection.event() {
        assert_eq!(event.get("error"), None);
        text.push_str(event["choices"][0]["text"].as_str().unwrap_or_default());
        n_tokens = n_tokens.or(event["usage"]["completion_tokens"].as_u64());
        n_events += 1;
        if stay == Some(n_events) {
            return None;
        }
    }
    Some((text, n_tokens))
}

fn whole(connection: Stream) -> (String, Option<u64>) {
    let answer = connection.rest();
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let answer: Value = serde_json::from_str(body).expect("JSON");
    let text = answer["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
    (text.to_owned(), answer["usage"]["completion_tokens"].as_u64())
}

/// Numbers that look random, the same ones for each seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        // Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % n
    }
}

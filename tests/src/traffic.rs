//! Many clients at a time, for as long as a test likes: over both faces, in both forms of an answer, and a part of them
//! leaves, before anything has come, in the middle, or after it has let an answer lie unread for seconds.
//!
//! What they do follows from a seed, except for how far each gets until the time is up. Every answer that is read to its
//! end is checked: it is whole, as long as it was asked for, and its text is the one that the prompt has. Where the model can
//! write JSON some ask for an object, which must parse, and has the form that was asked for.

use std::{
    iter::Sum,
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures::future::join_all;
use specfleet_client::Client;
use specfleet_speculation::TokenId;

mod call;

use call::{Asked, Call, Way};

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
    /// Whether some ask for an object of a schema. The model must have a chat template, and a vocabulary for JSON.
    pub with_objects: bool,
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
    /// Objects of a schema among them.
    pub n_objects: usize,
    /// Clients that left before.
    pub n_left: usize,
    /// Clients among them that have let a whole answer lie unread.
    pub n_unread: usize,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was read to its end.
    Text,
    /// The same, and it was the object that was asked for.
    Object,
    /// Its client has left before.
    Left,
}

impl Traffic {
    /// Keeps all clients busy for so long, and then waits for their last answers.
    pub async fn run(&self, seed: u64, time: Duration) -> Tally {
        let until = Instant::now() + time;
        let clients = (0..self.n_streams as u64).map(|index| {
            let (traffic, dice) = (self.clone(), Dice(seed.wrapping_mul(1000) + index));
            tokio::spawn(async move { traffic.be_client(dice, until).await })
        });
        join_all(clients).await.into_iter().map(|tally| tally.expect("no client has failed")).sum()
    }

    async fn be_client(&self, mut dice: Dice, until: Instant) -> Tally {
        let mut tally = Tally::default();
        while Instant::now() < until {
            let call = self.call(&mut dice);
            let is_unread = call.stay == Some(0) && call.patience == FORGETFUL_STAY;
            match call.make(self).await {
                Outcome::Text => tally.n_whole += 1,
                Outcome::Object => {
                    tally.n_whole += 1;
                    tally.n_objects += 1;
                }
                Outcome::Left => {
                    tally.n_left += 1;
                    tally.n_unread += usize::from(is_unread);
                }
            }
        }
        tally
    }

    fn call(&self, dice: &mut Dice) -> Call {
        let is_forgetful = dice.below(4) == 0;
        let (asked, ways) = match self.with_objects && dice.below(4) == 0 {
            true => (Asked::Object, &[Way::HttpStream, Way::HttpWhole][..]),
            false => {
                let case = self.cases[dice.below(self.cases.len() as u64) as usize].clone();
                (Asked::Text(case), &[Way::Grpc, Way::HttpStream, Way::HttpWhole][..])
            }
        };
        Call {
            asked,
            max_tokens: 1 + dice.below(self.max_tokens as u64) as usize,
            way: ways[dice.below(ways.len() as u64) as usize],
            // A third leaves, a part of these without reading.
            stay: (dice.below(3) == 0).then(|| dice.below(6) as usize),
            patience: if is_forgetful { FORGETFUL_STAY } else { Duration::from_millis(dice.below(LONGEST_STAY)) },
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| Self {
            n_whole: sum.n_whole + tally.n_whole,
            n_objects: sum.n_objects + tally.n_objects,
            n_left: sum.n_left + tally.n_left,
            n_unread: sum.n_unread + tally.n_unread,
        })
    }
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

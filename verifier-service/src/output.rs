//! The way from committed tokens to the client, which may read slowly, or not at all.
//!
//! The engine never waits for a client. Events go into a channel that holds so many bytes; a client that lets it fill up
//! loses its own stream, with an error that says so, and a client that is gone is noticed at the next round. How a
//! continuation ends travels beside the channel, so that a full one cannot swallow the reason.
//!
//! The continuations of one prompt share both channels: their events reach the client in the order in which they came
//! about, and what they may leave unread they may together.

use std::sync::Arc;

use specfleet_model::tokenizer::{Detokenizer, Tokenizer};
use specfleet_protocol::v1;
use specfleet_speculation::{
    TokenId,
    round::{CommittedToken, Origin},
};
use tokio::sync::mpsc;

use crate::{engine::Permit, error::Error};

mod generation;
mod stop;
mod unread;
mod watched;

use generation::Ended;
pub(crate) use generation::Generation;
use stop::StopMatcher;
use unread::{Unread, UnreadSender};
pub(crate) use watched::{Watched, untaken};

/// Bytes that a client may leave unread, for each continuation of its request: ten seconds of decoding at 10 ms a round,
/// and with twenty alternatives beside each token three. A continuation keeps its place until its end is delivered, so a
/// server with 320 places holds 160 MB of it at most. An answer in one piece leaves nothing here: it is collected whatever
/// its size, and keeps all its places until it is written.
const MAX_UNREAD_BYTES: usize = 512 << 10;

/// What a client sees while its request runs.
#[derive(Debug)]
pub(crate) enum Event {
    /// The request was admitted.
    Started {
        n_prompt: usize,
        /// Prompt tokens that were not computed again.
        n_reused: usize,
    },
    /// The tokens of one round of one continuation; with the first of a request that wants its prompt scored, the prompt.
    Committed { choice_index: u32, prompt: Vec<PromptToken>, tokens: Vec<OutputToken>, n_proposed: usize },
    /// The end of one continuation.
    Finished(v1::Finished),
}

/// A committed token with the text that it completes.
#[derive(Clone, Debug)]
pub(crate) struct OutputToken {
    pub(crate) token: TokenId,
    pub(crate) text: String,
    /// Characters that the token completes, whether or not they are shown with it: text that may yet become a stop string
    /// comes with a later token.
    pub(crate) n_chars: usize,
    pub(crate) origin: Origin,
    /// If the request asks for it.
    pub(crate) score: Option<TokenScore>,
}

/// A token of a prompt that is scored.
#[derive(Clone, Debug)]
pub(crate) struct PromptToken {
    pub(crate) token: TokenId,
    /// Absent for the first one, which follows nothing.
    pub(crate) score: Option<TokenScore>,
}

/// What the target thought of a token: log-probabilities as the model gives them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenScore {
    pub(crate) logprob: f32,
    /// The likeliest tokens of the position, likeliest first.
    pub(crate) top: Vec<(TokenId, f32)>,
}

/// How a continuation ends.
type End = Result<v1::Finished, Error>;

/// The engine's side of one continuation.
#[derive(Debug)]
pub(crate) struct Output {
    events: UnreadSender,
    ends: mpsc::Sender<Ended>,
    choice_index: u32,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    n_spelled: usize,
    /// Tokens whose text may not end the continuation.
    min_tokens: usize,
    /// Special tokens that are text.
    spelled: Arc<[TokenId]>,
}

/// Why an event could not be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The client is gone.
    Gone,
    /// The client has left more unread than is kept.
    Full { n_bytes: usize, most: usize },
}

impl Output {
    /// Both sides of a request's way out: one output for each continuation, in order, and the client's side. Texts end
    /// before any of `stops` that is complete after the first `min_tokens` tokens. The names of the special tokens
    /// `spelled` stand in them.
    pub(crate) fn channel(
        n_choices: u32,
        stops: &Arc<[String]>,
        min_tokens: usize,
        spelled: &Arc<[TokenId]>,
    ) -> (Vec<Self>, Generation) {
        let n = n_choices as usize;
        let (events, unread) = unread::channel(MAX_UNREAD_BYTES * n);
        // Never full: each continuation ends once.
        let (ends, ended) = mpsc::channel(n);
        let generation = Generation::new(unread, ended, ends.downgrade(), n);
        let output = |choice_index| Self {
            events: events.clone(),
            ends: ends.clone(),
            choice_index,
            detokenizer: Detokenizer::new(),
            stops: StopMatcher::new(stops.clone()),
            n_spelled: 0,
            min_tokens,
            spelled: spelled.clone(),
        };
        ((0..n_choices).map(output).collect(), generation)
    }

    /// Which of the request's continuations it is, from 0.
    pub(crate) fn choice_index(&self) -> u32 {
        self.choice_index
    }

    /// Whether the client has gone away.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// Says that the request was admitted. Only the first continuation does: it is admitted before the others.
    pub(crate) fn started(&self, n_prompt: usize, n_reused: usize) -> Result<(), Undelivered> {
        match self.choice_index {
            0 => self.events.send(Event::Started { n_prompt, n_reused }),
            _ => Ok(()),
        }
    }

    /// Spells the next token. `end` is what its id and its place mean for the request; its text may mean the end too.
    ///
    /// An end token has no text. With the last token comes what was held back: the bytes of a character that never became
    /// complete, and the beginning of a stop string that has not come. No stop string is complete before the request's
    /// `min_tokens` are there and one more.
    pub(crate) fn spell(
        &mut self,
        tokenizer: &Tokenizer,
        committed: CommittedToken,
        end: RoundEnd,
    ) -> (OutputToken, RoundEnd) {
        let CommittedToken { token, origin } = committed;
        let mut text = match end {
            RoundEnd::EndToken => String::new(),
            _ if self.spelled.contains(&token) => self.detokenizer.push_name(tokenizer, token),
            _ => self.detokenizer.push(tokenizer, token),
        };
        if end != RoundEnd::Open {
            text.push_str(&self.detokenizer.finish());
        }
        self.n_spelled += 1;
        let mut released = self.stops.push(&text, self.n_spelled > self.min_tokens);
        if end != RoundEnd::Open && !released.stopped {
            released.text.push_str(&self.stops.finish());
        }
        let end = if released.stopped { RoundEnd::StopString } else { end };
        let n_chars = text.chars().count();
        (OutputToken { token, text: released.text, n_chars, origin, score: None }, end)
    }

    /// Sends the tokens of a round.
    pub(crate) fn committed(
        &self,
        prompt: Vec<PromptToken>,
        tokens: Vec<OutputToken>,
        n_proposed: usize,
    ) -> Result<(), Undelivered> {
        self.events.send(Event::Committed { choice_index: self.choice_index, prompt, tokens, n_proposed })
    }

    /// Ends the continuation. What was sent before is still delivered, and then its place is free.
    pub(crate) fn end(self, end: End, place: Arc<Permit>) {
        // A client that is gone does not want to know.
        let _ = self.ends.try_send(Ended { end, place: Some(place) });
    }
}

/// What a token means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// It goes on.
    Open,
    /// The token ends it.
    EndToken,
    /// The token's text ends it.
    StopString,
    /// There is no room for another.
    Length,
}

#[cfg(test)]
mod tests;

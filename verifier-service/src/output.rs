//! The way from committed tokens to the client, which may read slowly, or not at all.
//!
//! The engine never waits for a client. Events go into a channel of bounded length; a client that lets it fill up loses
//! its own stream, with an error that says so, and a client that is gone is noticed at the next round. How a request ends
//! travels beside the channel, so that a full one cannot swallow the reason.

use specfleet_model::tokenizer::{Detokenizer, Tokenizer};
use specfleet_protocol::v1;
use specfleet_speculation::{
    TokenId,
    round::{CommittedToken, Origin},
};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;

/// Rounds that a client may leave unread. Ten seconds of decoding at 10 ms a round, and about 100 KB.
pub(crate) const MAX_UNREAD: usize = 1024;

/// What a client sees while its request runs.
#[derive(Debug)]
pub(crate) enum Event {
    /// The request was admitted.
    Started {
        n_prompt: usize,
        /// Prompt tokens that were not computed again.
        n_reused: usize,
    },
    /// The tokens of one round.
    Committed { tokens: Vec<OutputToken>, n_proposed: usize },
}

/// A committed token with the text that it completes.
#[derive(Debug)]
pub(crate) struct OutputToken {
    pub(crate) token: TokenId,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// How a request ends.
pub(crate) type End = Result<v1::Finished, Error>;

/// The client's side.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) end: oneshot::Receiver<End>,
}

/// The engine's side.
#[derive(Debug)]
pub(crate) struct Output {
    events: mpsc::Sender<Event>,
    end: oneshot::Sender<End>,
    detokenizer: Detokenizer,
}

/// Why an event could not be handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undelivered {
    /// The client is gone.
    Gone,
    /// The client has left [`MAX_UNREAD`] events unread.
    Full,
}

impl Output {
    /// Both sides of a request's way out.
    pub(crate) fn channel() -> (Self, Generation) {
        let (events, unread) = mpsc::channel(MAX_UNREAD);
        let (end, ended) = oneshot::channel();
        (Self { events, end, detokenizer: Detokenizer::new() }, Generation { events: unread, end: ended })
    }

    /// Whether the client has gone away.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    pub(crate) fn started(&self, n_prompt: usize, n_reused: usize) -> Result<(), Undelivered> {
        self.send(Event::Started { n_prompt, n_reused })
    }

    /// Sends the tokens of a round. `ended_by` is the token that ended the request, which has no text; with `is_last`
    /// the bytes of a character that never became complete are flushed.
    pub(crate) fn committed(
        &mut self,
        tokenizer: &Tokenizer,
        committed: &[CommittedToken],
        n_proposed: usize,
        end: RoundEnd,
    ) -> Result<(), Undelivered> {
        let n_with_text = committed.len() - usize::from(end == RoundEnd::EndToken);
        let mut tokens: Vec<OutputToken> = (committed.iter().enumerate())
            .map(|(index, &CommittedToken { token, origin })| {
                let text = match index < n_with_text {
                    true => self.detokenizer.push(tokenizer, token),
                    false => String::new(),
                };
                OutputToken { token, text, origin }
            })
            .collect();
        if end != RoundEnd::Open
            && let Some(last) = tokens.last_mut()
        {
            last.text.push_str(&self.detokenizer.finish());
        }
        self.send(Event::Committed { tokens, n_proposed })
    }

    /// Ends the stream. What was sent before is still delivered.
    pub(crate) fn end(self, end: End) {
        // A client that is gone does not want to know.
        let _ = self.end.send(end);
    }

    fn send(&self, event: Event) -> Result<(), Undelivered> {
        self.events.try_send(event).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Undelivered::Full,
            mpsc::error::TrySendError::Closed(_) => Undelivered::Gone,
        })
    }
}

/// What the last token of a round means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoundEnd {
    /// It goes on.
    Open,
    /// The token ends it.
    EndToken,
    /// There is no room for another.
    Length,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tokens(ids: &[TokenId]) -> Vec<CommittedToken> {
        ids.iter().map(|&token| CommittedToken { token, origin: Origin::Plain }).collect()
    }

    /// 0 and 1 are the halves of "é", 2 is "x", 3 ends.
    fn tokenizer() -> Tokenizer {
        let bytes = vec![vec![0xC3], vec![0xA9], b"x".to_vec(), b"</s>".to_vec()];
        Tokenizer::from_bytes(bytes, &[3], &[3])
    }

    fn texts(generation: &mut Generation) -> Vec<String> {
        let mut texts = Vec::new();
        while let Ok(Event::Committed { tokens, .. }) = generation.events.try_recv() {
            texts.extend(tokens.into_iter().map(|token| token.text));
        }
        texts
    }

    #[test]
    fn a_character_comes_with_the_token_that_completes_it() {
        let (mut output, mut generation) = Output::channel();
        output.committed(&tokenizer(), &tokens(&[2, 0]), 0, RoundEnd::Open).unwrap();
        output.committed(&tokenizer(), &tokens(&[1, 3]), 0, RoundEnd::EndToken).unwrap();
        assert_eq!(texts(&mut generation), ["x", "", "é", ""]);
    }

    #[test]
    fn half_a_character_at_the_end_is_replaced_once() {
        let (mut output, mut generation) = Output::channel();
        output.committed(&tokenizer(), &tokens(&[2, 0]), 0, RoundEnd::Length).unwrap();
        assert_eq!(texts(&mut generation), ["x", "\u{FFFD}"]);
    }

    #[test]
    fn a_stop_token_with_a_spelling_has_no_text() {
        let (mut output, mut generation) = Output::channel();
        output.committed(&tokenizer(), &tokens(&[2, 2]), 0, RoundEnd::EndToken).unwrap();
        assert_eq!(texts(&mut generation), ["x", ""]);
    }

    #[test]
    fn a_client_that_does_not_read_loses_its_stream_and_hears_why() {
        let (mut output, mut generation) = Output::channel();
        let mut n_sent = 0;
        let undelivered = loop {
            match output.committed(&tokenizer(), &tokens(&[2]), 0, RoundEnd::Open) {
                Ok(()) => n_sent += 1,
                Err(undelivered) => break undelivered,
            }
        };
        assert_eq!((n_sent, undelivered), (MAX_UNREAD, Undelivered::Full));
        output.end(Err(Error::SlowClient { n_events: MAX_UNREAD }));
        assert_eq!(texts(&mut generation).len(), MAX_UNREAD);
        assert_eq!(generation.end.try_recv().unwrap(), Err(Error::SlowClient { n_events: MAX_UNREAD }));
    }

    #[test]
    fn a_client_that_left_is_noticed() {
        let (output, generation) = Output::channel();
        assert!(!output.is_abandoned());
        drop(generation);
        assert!(output.is_abandoned());
        assert_eq!(output.started(1, 0), Err(Undelivered::Gone));
    }
}

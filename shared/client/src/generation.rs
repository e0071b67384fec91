//! One running request: the verifier's messages as typed events, with the sequence rules of the contract checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tonic::Streaming;

use crate::client::unreadable;
use crate::error::{Error, Service};
use crate::v1::{self, GenerateResponse, generate_response};

/// What a verifier says about a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request is admitted: always first.
    Started(v1::Started),
    /// The verified tokens of one round of one continuation: see its `choice_index`.
    Committed(v1::Committed),
    /// The end of one continuation, with what it took: the last event with its `choice_index`.
    Finished(v1::Finished),
}

impl Event {
    /// Which of the request's continuations it is about, from 0. [`Event::Started`] is about all of them.
    pub fn choice_index(&self) -> Option<u32> {
        match self {
            Self::Started(_) => None,
            Self::Committed(committed) => Some(committed.choice_index),
            Self::Finished(finished) => Some(finished.choice_index),
        }
    }
}

/// The events of one request, in order. Dropping it cancels the request.
///
/// A request for one continuation yields Started, Committed..., Finished. With several, their Committed and Finished are
/// interleaved as they come about. The stream is over after the last Finished, or after an error.
#[derive(Debug)]
pub struct Generation {
    responses: Streaming<GenerateResponse>,
    endpoint: String,
    place: Place,
    /// Of each continuation, whether it goes on.
    open: Vec<bool>,
}

/// Where in the sequence the stream is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Opening,
    Running,
    /// Only the stream's own end is to come. It is waited for: a stream that is dropped before it counts as broken, and
    /// HTTP/2 gives up a connection with a thousand broken streams.
    Finished,
    Over,
}

impl Generation {
    /// The answer to a request for `n` continuations; 0 means one.
    pub(crate) fn new(responses: Streaming<GenerateResponse>, endpoint: String, n: u32) -> Self {
        Self { responses, endpoint, place: Place::Opening, open: vec![true; n.max(1) as usize] }
    }

    /// Checks that `event` may come here and moves on.
    fn admit(&mut self, event: Option<generate_response::Event>) -> Result<Event, Error> {
        use generate_response::Event as Wire;
        let event = match (self.place, event) {
            (Place::Opening, Some(Wire::Started(started))) => Event::Started(started),
            (Place::Running, Some(Wire::Committed(committed))) => Event::Committed(committed),
            (Place::Running, Some(Wire::Finished(finished))) => Event::Finished(finished),
            (Place::Opening, _) => return Err(Error::Sequence("its first message was not Started")),
            (_, None) => return Err(Error::Sequence("a message held no event that this client knows")),
            (_, Some(_)) => return Err(Error::Sequence("it sent Started twice")),
        };
        self.place = Place::Running;
        if let Some(choice_index) = event.choice_index() {
            let open = self.open.get_mut(choice_index as usize).filter(|open| **open);
            let open =
                open.ok_or(Error::Sequence("a message was about a continuation that is over or was not asked for"))?;
            *open = !matches!(event, Event::Finished(_));
        }
        if !self.open.contains(&true) {
            self.place = Place::Finished;
        }
        Ok(event)
    }

    /// Waits for the end of all continuations and returns each as a whole, in order.
    ///
    /// # Errors
    /// The first one that the stream yields.
    pub async fn answers(mut self) -> Result<Vec<Answer>, Error> {
        let mut answers = vec![Answer::default(); self.open.len()];
        while let Some(event) = self.next().await {
            let event = event?;
            // The index was checked as the event came in.
            let Some(answer) = event.choice_index().and_then(|index| answers.get_mut(index as usize)) else { continue };
            match event {
                Event::Started(_) => {}
                Event::Committed(committed) => answer.tokens.extend(committed.tokens),
                Event::Finished(finished) => answer.finished = finished,
            }
        }
        Ok(answers)
    }
}

/// One continuation as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// All of its tokens.
    pub tokens: Vec<v1::CommittedToken>,
    /// How it ended, and what it took.
    pub finished: v1::Finished,
}

impl Answer {
    /// The ids of its tokens.
    pub fn token_ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.token_id).collect()
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.tokens.iter().map(|token| token.text.as_str()).collect()
    }
}

impl Stream for Generation {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.place == Place::Over {
            return Poll::Ready(None);
        }
        // The library panics at a status that it cannot read.
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut self.responses).poll_next(context)));
        let received = std::task::ready!(polled.unwrap_or_else(|_| Poll::Ready(Some(Err(unreadable())))));
        if self.place == Place::Finished {
            self.place = Place::Over;
            return Poll::Ready(None);
        }
        let result = match received {
            Some(Ok(response)) => self.admit(response.event),
            Some(Err(status)) => Err(Error::from_status(Service::Verifier, &self.endpoint, &status)),
            None => Err(Error::Sequence("it ended before the last Finished")),
        };
        if result.is_err() {
            self.place = Place::Over;
        }
        Poll::Ready(Some(result))
    }
}

//! One running request: the verifier's messages as typed events, with the sequence rules of the contract checked.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use tonic::Streaming;

use crate::error::{Error, Service};
use crate::v1::{self, GenerateResponse, generate_response};

/// What a verifier says about a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request is admitted: always first.
    Started(v1::Started),
    /// The verified tokens of one round.
    Committed(v1::Committed),
    /// The end, with what it took: always last.
    Finished(v1::Finished),
}

/// The events of one request, in order. Dropping it cancels the request.
///
/// After an error or [`Event::Finished`] the stream is over.
#[derive(Debug)]
pub struct Generation {
    responses: Streaming<GenerateResponse>,
    endpoint: String,
    place: Place,
}

/// Where in the sequence Started, Committed*, Finished the stream is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Opening,
    Running,
    Over,
}

impl Generation {
    pub(crate) fn new(responses: Streaming<GenerateResponse>, endpoint: String) -> Self {
        Self { responses, endpoint, place: Place::Opening }
    }

    /// Checks that `event` may come here and moves on.
    fn admit(&mut self, event: Option<generate_response::Event>) -> Result<Event, Error> {
        use generate_response::Event as Wire;
        let (event, next) = match (self.place, event) {
            (Place::Opening, Some(Wire::Started(started))) => (Event::Started(started), Place::Running),
            (Place::Running, Some(Wire::Committed(committed))) => (Event::Committed(committed), Place::Running),
            (Place::Running, Some(Wire::Finished(finished))) => (Event::Finished(finished), Place::Over),
            (Place::Opening, _) => return Err(Error::Sequence("its first message was not Started")),
            (_, None) => return Err(Error::Sequence("a message held no event that this client knows")),
            (_, Some(_)) => return Err(Error::Sequence("it sent Started twice")),
        };
        self.place = next;
        Ok(event)
    }
}

impl Stream for Generation {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.place == Place::Over {
            return Poll::Ready(None);
        }
        let received = std::task::ready!(Pin::new(&mut self.responses).poll_next(context));
        let result = match received {
            Some(Ok(response)) => self.admit(response.event),
            Some(Err(status)) => Err(Error::from_status(Service::Verifier, &self.endpoint, &status)),
            None => Err(Error::Sequence("it ended before Finished")),
        };
        if result.is_err() {
            self.place = Place::Over;
        }
        Poll::Ready(Some(result))
    }
}

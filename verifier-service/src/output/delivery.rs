//! What waits for a client: the events of a request, and how its continuations ended.

use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use super::{End, Event, MAX_UNREAD_BYTES, Unread};
use crate::{engine::Permit, error::Error};

/// How a continuation ended, with its place in the engine: what it has left takes memory until it is delivered, so that
/// long nobody else may have the place.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// Absent if the continuation had none, or has none any more.
    pub(super) place: Option<Permit>,
}

/// The way of a request's events to the client.
#[derive(Debug)]
pub(super) struct Delivery {
    events: Unread,
    ends: mpsc::Receiver<Ended>,
    /// An end that waits until the events before it are delivered.
    held: Option<Ended>,
    /// Continuations whose end has not been delivered.
    n_open: usize,
    n_taken: u64,
}

impl Delivery {
    pub(super) fn new(events: Unread, ends: mpsc::Receiver<Ended>, n_choices: usize) -> Self {
        Self { events, ends, held: None, n_open: n_choices, n_taken: 0 }
    }

    /// Events that the client has taken.
    pub(super) fn n_taken(&self) -> u64 {
        self.n_taken
    }

    /// Whether the request has ended, and the client has not taken all of it.
    pub(super) fn is_left(&self) -> bool {
        self.n_open > 0 && self.ends.is_closed()
    }

    /// Drops what is left. The client is told so, should it ask again.
    pub(super) fn drop_rest(&mut self, reason: impl FnOnce(usize) -> Error) {
        let end = Err(reason(self.events.n_bytes()));
        self.close();
        self.held = Some(Ended { end, place: None });
    }

    /// The next event; `None` when all continuations are finished, or after the error of one.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Event, Error>>> {
        if self.n_open == 0 {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_open(context));
        self.n_taken += 1;
        Poll::Ready(Some(next))
    }

    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        loop {
            if self.held.is_none()
                && let Poll::Ready(Some(event)) = self.events.poll_recv(context)
            {
                return Poll::Ready(Ok(event));
            }
            if let Some(ended) = self.held.take() {
                // Its last tokens may have come after the look at the events. Pending would not mean that there is none:
                // the runtime answers that too when it is another task's turn.
                let Some(event) = self.events.try_recv() else { return Poll::Ready(self.deliver(ended)) };
                self.held = Some(ended);
                return Poll::Ready(Ok(event));
            }
            self.held = Some(ready!(self.ends.poll_recv(context)).unwrap_or_else(|| Ended {
                end: Err(Error::ModelFailed("the engine has ended".to_owned())),
                place: None,
            }));
        }
    }

    fn deliver(&mut self, Ended { end, place }: Ended) -> Result<Event, Error> {
        // First the place, then the news: whoever asks again at once finds it free.
        drop(place);
        match end {
            Ok(finished) => {
                self.n_open -= 1;
                // Nobody's place stands for these bytes any more. All that came before has been read.
                self.events.keep_less(MAX_UNREAD_BYTES);
                Ok(Event::Finished(finished))
            }
            Err(error) => {
                self.n_open = 0;
                self.close();
                Err(error)
            }
        }
    }

    fn close(&mut self) {
        self.events.close();
        while self.events.try_recv().is_some() {}
        self.ends.close();
        while self.ends.try_recv().is_ok() {}
        self.held = None;
    }
}

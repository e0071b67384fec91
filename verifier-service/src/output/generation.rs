//! The client's side: everything about a request in one stream, whatever its number of continuations.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::Stream;
use tokio::sync::mpsc;

use super::{End, Event, Unread};
use crate::error::Error;

/// The events of a request: over when all continuations are finished, or with the error of the first that fails.
/// Dropping it cancels them all, and so does that error: a request is answered whole or not at all.
#[derive(Debug)]
pub(crate) struct Generation {
    events: Unread,
    ends: mpsc::Receiver<End>,
    /// An end that waits until the events before it are delivered.
    held: Option<End>,
    /// Continuations whose end has not been delivered.
    n_open: usize,
}

impl Generation {
    pub(super) fn new(events: Unread, ends: mpsc::Receiver<End>, n_choices: usize) -> Self {
        Self { events, ends, held: None, n_open: n_choices }
    }

    fn deliver(&mut self, end: End) -> Result<Event, Error> {
        match end {
            Ok(finished) => {
                self.n_open -= 1;
                Ok(Event::Finished(finished))
            }
            Err(error) => {
                self.n_open = 0;
                self.events.close();
                Err(error)
            }
        }
    }
}

impl Stream for Generation {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.n_open == 0 {
            return Poll::Ready(None);
        }
        loop {
            if self.held.is_none()
                && let Poll::Ready(Some(event)) = self.events.poll_recv(context)
            {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(end) = self.held.take() {
                // Its last tokens may have come after the look at the events. Pending would not mean that there is none:
                // the runtime answers that too when it is another task's turn.
                let Some(event) = self.events.try_recv() else { return Poll::Ready(Some(self.deliver(end))) };
                self.held = Some(end);
                return Poll::Ready(Some(Ok(event)));
            }
            let end = ready!(self.ends.poll_recv(context));
            self.held = Some(end.unwrap_or_else(|| Err(Error::ModelFailed("the engine has ended".to_owned()))));
        }
    }
}

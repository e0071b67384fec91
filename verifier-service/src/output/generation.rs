//! The client's side: everything about a request in one stream, whatever its number of continuations.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use futures::Stream;
use tokio::sync::mpsc;

use super::{End, Event, MAX_UNREAD_BYTES, Unread};
use crate::{engine::Permit, error::Error};

/// How a continuation ended, with its place in the engine: what it has left takes memory until it is delivered, so that
/// long nobody else may have the place.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// Absent if the engine is gone.
    pub(super) place: Option<Arc<Permit>>,
}

/// The events of a request: over when all continuations are finished, or with the error of the first that fails.
/// Dropping it cancels them all, and so does that error: a request is answered whole or not at all.
#[derive(Debug)]
pub(crate) struct Generation {
    events: Unread,
    ends: mpsc::Receiver<Ended>,
    /// Gone with the last continuation that the engine has.
    engine: mpsc::WeakSender<Ended>,
    /// An end that waits until the events before it are delivered.
    held: Option<Ended>,
    /// Continuations whose end has not been delivered.
    n_open: usize,
    places: Vec<Weak<Permit>>,
}

impl Generation {
    pub(super) fn new(
        events: Unread,
        ends: mpsc::Receiver<Ended>,
        engine: mpsc::WeakSender<Ended>,
        n_choices: usize,
    ) -> Self {
        Self { events, ends, engine, held: None, n_open: n_choices, places: Vec::new() }
    }

    /// The same, where its continuations have these places.
    pub(crate) fn in_places(self, places: Vec<Weak<Permit>>) -> Self {
        Self { places, ..self }
    }

    /// Keeps its places taken, however and whenever it ends, for an answer that takes memory for longer.
    pub(crate) fn hold_places(&self) -> Vec<Arc<Permit>> {
        self.places.iter().filter_map(Weak::upgrade).collect()
    }

    /// Tells whether the engine is done with it: then there is nothing more to do than to take what is left.
    pub(crate) fn has_ended(&self) -> impl Fn() -> bool + Send + use<> {
        let engine = self.engine.clone();
        move || engine.strong_count() == 0
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

impl Stream for Generation {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.n_open == 0 {
            return Poll::Ready(None);
        }
        this.poll_open(context).map(Some)
    }
}

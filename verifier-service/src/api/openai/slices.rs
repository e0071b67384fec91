//! A long body on its way to a client that takes it slowly, or not at all.
//!
//! A connection asks for the next part of a body when it has sent the one before. A part can be megabytes: one piece of an
//! answer with a scored prompt in it. Handed over whole, it would stay with the connection for as long as its client likes,
//! and of a client that reads all the time nobody would hear for minutes. So bodies are handed over in slices, and only
//! those are counted.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    Error,
    body::{Body, BodyDataStream, Bytes},
};
use futures::{Stream, StreamExt};

use crate::{
    engine::Permit,
    output::{Watched, untaken},
};

/// Sent within a minute by the slowest of connections.
pub(super) const LONGEST_SLICE: usize = 64 << 10;

struct Slices {
    body: BodyDataStream,
    /// What is left of a part that has been cut.
    rest: Bytes,
    /// Taken until all of the body is.
    _places: Vec<Arc<Permit>>,
}

/// A body that keeps `places` until it is written, and whose rest is dropped if the client leaves it after the call
/// `has_ended`. Then `last` stands for it, or, where that is absent or would stand in the middle of a part, the body breaks
/// off.
pub(super) fn watched(
    body: Body,
    places: Vec<Arc<Permit>>,
    has_ended: impl Fn() -> bool + Send + 'static,
    last: Option<String>,
) -> Body {
    let slices = Slices { body: body.into_data_stream(), rest: Bytes::new(), _places: places };
    let last = move |slices: &Slices| match last {
        Some(last) if slices.rest.is_empty() => Ok(last.into()),
        _ => Err(Error::new(untaken())),
    };
    Body::from_stream(Watched::new(slices, has_ended, last))
}

impl Stream for Slices {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rest.is_empty() {
            match ready!(self.body.poll_next_unpin(context)) {
                Some(Ok(part)) => self.rest = part,
                over => return Poll::Ready(over),
            }
        }
        let n_bytes = self.rest.len().min(LONGEST_SLICE);
        Poll::Ready(Some(Ok(self.rest.split_to(n_bytes))))
    }
}

//! Does the client take what there is for it?
//!
//! A client that has left too much unread loses a request that runs. One that has ended can grow no more, but what it has
//! left would stay for as long as the connection does, and a connection that answers pings may last for ever. So it is
//! watched: what an ended call has left is dropped when nothing of it has been taken for a minute.
//!
//! What counts is what the connection asks for: it does when it has sent what it had. So a stream must be watched where
//! it has the form in which it is sent, all prompts of a call together, and in parts that are sent within a minute. (A message
//! of gRPC is one part, however large.)

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use futures::{Stream, StreamExt};
use specfleet_service::serve::UNTAKEN_TIMEOUT;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;

/// How often that is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A stream whose rest is dropped if the client leaves it. Dropping it drops the stream.
pub(crate) struct Watched<S: Stream> {
    /// Shared with the watch. Locked while something is taken.
    left: Arc<Mutex<Left<S>>>,
    _watch: AbortOnDropHandle<()>,
}

struct Left<S: Stream> {
    /// Absent when it is over or dropped.
    stream: Option<S>,
    /// What the client is told instead of the rest.
    last: Option<S::Item>,
    n_taken: u64,
}

/// What the client is told whose rest is dropped.
pub(crate) fn untaken() -> Error {
    Error::Untaken { waited: UNTAKEN_TIMEOUT }
}

impl<S: Stream<Item: Send> + Send + Unpin + 'static> Watched<S> {
    /// Watches `stream` from when it `has_ended`: when all that can come of it has come. `last` stands for a rest that is
    /// dropped. Must be called inside a tokio runtime.
    pub(crate) fn new(
        stream: S,
        has_ended: impl Fn() -> bool + Send + 'static,
        last: impl FnOnce(&S) -> S::Item + Send + 'static,
    ) -> Self {
        let left = Arc::new(Mutex::new(Left { stream: Some(stream), last: None, n_taken: 0 }));
        let watch = tokio::spawn(watch(Arc::downgrade(&left), has_ended, last));
        Self { left, _watch: AbortOnDropHandle::new(watch) }
    }
}

impl<S: Stream + Unpin> Stream for Watched<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        // Whatever panicked was the stream, and nobody asks it again.
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let left = &mut *left;
        let Some(stream) = &mut left.stream else { return Poll::Ready(left.last.take()) };
        let next = ready!(stream.poll_next_unpin(context));
        left.n_taken += 1;
        if next.is_none() {
            left.stream = None;
        }
        Poll::Ready(next)
    }
}

impl<S: Stream + Unpin> Left<S> {
    fn drop_rest(&mut self, last: impl FnOnce(&S) -> S::Item) {
        let Some(mut stream) = self.stream.take() else { return };
        let last = last(&stream);
        // The rest may be no more than that this was all.
        let is_over = matches!(stream.poll_next_unpin(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
        self.last = (!is_over).then_some(last);
    }
}

async fn watch<S: Stream + Unpin>(
    left: Weak<Mutex<Left<S>>>,
    has_ended: impl Fn() -> bool,
    last: impl FnOnce(&S) -> S::Item,
) {
    // How much had been taken when something was left first, and when that was.
    let mut idle: Option<(u64, Instant)> = None;
    loop {
        sleep(LOOK_INTERVAL).await;
        let Some(left) = left.upgrade() else { return };
        let Ok(mut left) = left.try_lock() else {
            // Something is being taken.
            idle = None;
            continue;
        };
        if left.stream.is_none() {
            return;
        }
        match idle.filter(|(before, _)| *before == left.n_taken && has_ended()) {
            Some((_, since)) if since.elapsed() >= UNTAKEN_TIMEOUT => return left.drop_rest(last),
            Some(_) => {}
            None => idle = has_ended().then(|| (left.n_taken, Instant::now())),
        }
    }
}

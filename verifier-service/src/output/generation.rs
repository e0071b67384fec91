//! The client's side: everything about a request in one stream, whatever its number of continuations.
//!
//! A client that has left too much unread loses a request that runs. One that has ended can grow no more, but what it has
//! left would stay for as long as the connection does, and a connection that answers pings may last for ever. So it is
//! watched: what an ended request has left is dropped when nothing of it has been taken for a minute.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::Duration,
};

use futures::Stream;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{Event, delivery::Delivery};
use crate::error::Error;

/// How long an ended request's client may take nothing. As long as a connection may, see `specfleet_service::serve::bind`.
pub(super) const LONGEST_UNTAKEN: Duration = Duration::from_secs(60);
/// How often that is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The events of a request: over when all continuations are finished, or with the error of the first that fails.
/// Dropping it cancels them all, and so does that error: a request is answered whole or not at all.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Shared with the watch. Locked for a few instructions, and never by the engine.
    delivery: Arc<Mutex<Delivery>>,
    _watch: Option<AbortOnDropHandle<()>>,
}

impl Generation {
    pub(super) fn new(delivery: Delivery) -> Self {
        Self { delivery: Arc::new(Mutex::new(delivery)), _watch: None }
    }

    /// From now on its rest is dropped if the client leaves it. Must be called inside a tokio runtime.
    pub(crate) fn watched(self) -> Self {
        let watch = tokio::spawn(watch(Arc::downgrade(&self.delivery)));
        Self { _watch: Some(AbortOnDropHandle::new(watch)), ..self }
    }
}

impl Stream for Generation {
    type Item = Result<Event, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        lock(&self.delivery).poll_next(context)
    }
}

async fn watch(delivery: Weak<Mutex<Delivery>>) {
    // How much had been taken when something was left first, and when that was.
    let mut left: Option<(u64, Instant)> = None;
    loop {
        sleep(LOOK_INTERVAL).await;
        let Some(delivery) = delivery.upgrade() else { return };
        let mut delivery = lock(&delivery);
        let n_taken = delivery.n_taken();
        match left.filter(|(before, _)| *before == n_taken && delivery.is_left()) {
            Some((_, since)) if since.elapsed() >= LONGEST_UNTAKEN => {
                return delivery.drop_rest(|n_bytes| Error::Untaken { n_bytes, waited: LONGEST_UNTAKEN });
            }
            Some(_) => {}
            None => left = delivery.is_left().then(|| (n_taken, Instant::now())),
        }
    }
}

/// Nothing is left half done by a panic.
fn lock(delivery: &Mutex<Delivery>) -> MutexGuard<'_, Delivery> {
    delivery.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Long texts take long to read: seconds for a few megabytes. Done where streams are served, that would hold up everybody
//! else's; done on as many threads as there are clients, it would take the cores from the engine. So it has threads of its
//! own, few of them, and whoever wants one waits for his turn.

use std::{sync::Arc, thread, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use crate::error::{Error, Overload};

/// Large bodies that are in memory at a time. A body of token ids takes thirty times its size until it is read.
const MAX_LARGE: usize = 8;
/// How long a large body may wait for its turn, which costs a connection and nothing else.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// When to come again: a text of average length is done by then.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The threads for texts, and the room for large ones.
#[derive(Debug)]
pub(crate) struct Texts {
    threads: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// A large text's room in memory, until it is dropped.
pub(crate) type Room = OwnedSemaphorePermit;

impl Texts {
    /// Half of the cores are left to the engine.
    pub(crate) fn new() -> Self {
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        Self { threads: Arc::new(Semaphore::new((n_cores / 2).max(1))), large: Arc::new(Semaphore::new(MAX_LARGE)) }
    }

    /// Room for a large text.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if others have not made room in some seconds.
    pub(crate) async fn room(&self) -> Result<Room, Error> {
        match timeout(LONGEST_WAIT, self.large.clone().acquire_owned()).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(Error::Overloaded { cause: Overload::Texts, retry_after: RETRY_AFTER }),
        }
    }

    /// Does `work` in its turn, on a thread where it holds up nobody. Work that has begun is done even if nobody waits for
    /// it any more: what it holds, it holds to its end. Callers have room, or a place in the engine: so many can wait here
    /// and no more.
    ///
    /// # Errors
    /// [`Error::ModelFailed`] if the work panics.
    pub(crate) async fn read<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let turn = self.threads.clone().acquire_owned().await;
        let turn = turn.map_err(|closed| Error::ModelFailed(closed.to_string()))?;
        let work = move || {
            let _turn = turn;
            work()
        };
        spawn_blocking(work).await.map_err(|panic| Error::ModelFailed(panic.to_string()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    use futures::future::join_all;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn only_so_many_texts_are_read_at_a_time() {
        let texts = Texts::new();
        let most = texts.threads.available_permits();
        let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let work = || {
            let (running, peak) = (running.clone(), peak.clone());
            move || {
                peak.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                thread::sleep(Duration::from_millis(2));
                running.fetch_sub(1, SeqCst);
            }
        };
        join_all((0..50).map(|_| texts.read(work()))).await.into_iter().for_each(Result::unwrap);
        assert!((1..=most).contains(&peak.load(SeqCst)), "{} of {most}", peak.load(SeqCst));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_for_a_large_text_is_refused_after_a_while() {
        let texts = Texts::new();
        let rooms: Vec<Room> = join_all((0..MAX_LARGE).map(|_| texts.room())).await.into_iter().flatten().collect();
        assert!(matches!(texts.room().await, Err(Error::Overloaded { cause: Overload::Texts, .. })));
        drop(rooms);
        assert!(texts.room().await.is_ok());
    }
}

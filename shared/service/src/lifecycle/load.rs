//! Loading a model takes long enough that an operator may want the process to end meanwhile.

use std::thread;

use tokio::sync::oneshot;

use super::Shutdown;

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system gave no thread.
    #[error("cannot start the thread that loads: {0}")]
    Thread(#[from] std::io::Error),
    /// `load` panicked.
    #[error("loading broke off by a panic; its message is above")]
    Panicked,
}

/// Runs `load`, which may take minutes, until it is done or `shutdown` begins: then the answer is `None`, and whatever is
/// half loaded goes with the process.
///
/// On a thread of its own and not on the runtime's: a runtime waits for its blocking threads before it ends, and so would
/// a process that was told to.
///
/// # Errors
/// [`enum@Error`]. What `load` itself returns, errors included, is the value.
pub async fn load<T: Send + 'static>(
    shutdown: &Shutdown,
    load: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Error> {
    let (done, loaded) = oneshot::channel();
    thread::Builder::new().name("load".into()).spawn(move || {
        // Nobody waits any more once shutdown has begun.
        let _ = done.send(load());
    })?;
    tokio::select! {
        biased;
        () = shutdown.draining() => Ok(None),
        loaded = loaded => loaded.map(Some).map_err(|_| Error::Panicked),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// With a runtime of its own, whose end is part of what must not wait.
    #[test]
    fn shutdown_does_not_wait_for_it() {
        let (_never, blocked) = mpsc::channel::<()>();
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let shutdown = Shutdown::new(Duration::ZERO);
            let loaded = runtime.block_on(async {
                let loading = load(&shutdown, move || blocked.recv());
                let leaving = async {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    shutdown.begin();
                };
                tokio::join!(loading, leaving).0
            });
            drop(runtime);
            ended.send(loaded.unwrap().is_none()).unwrap();
        });
        assert!(end.recv_timeout(Duration::from_secs(20)).unwrap(), "nothing was loaded");
    }

    #[tokio::test]
    async fn what_was_loaded_comes_back_and_a_panic_is_an_error() {
        let shutdown = Shutdown::new(Duration::ZERO);
        assert_eq!(load(&shutdown, || 7).await.unwrap(), Some(7));
        let panicked = load(&shutdown, || -> u8 { panic!("on purpose") }).await;
        assert!(matches!(panicked, Err(Error::Panicked)));
    }
}

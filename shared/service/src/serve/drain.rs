//! Leaving without breaking promises: what runs may finish, what does not finish in time is told so.

use std::time::Duration;

use tokio_util::{
    sync::{CancellationToken, WaitForCancellationFutureOwned},
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::{Readiness, Shutdown};

/// How long streams of gRPC's own services may stay after the last call, so that those who watch the health hear
/// NOT_SERVING before their stream ends.
const LINGER: Duration = Duration::from_millis(200);
/// How long the last statuses may take to reach their callers.
const FAREWELL: Duration = Duration::from_secs(1);

/// The way out of one server: counts its calls, refuses new ones once draining, and ends those that outlast the limit.
/// Clones share one state.
#[derive(Clone, Debug)]
pub struct Drain {
    readiness: Readiness,
    shutdown: Shutdown,
    calls: TaskTracker,
    cut: CancellationToken,
}

impl Drain {
    /// Of a server that becomes unready, and then leaves, with `shutdown`.
    pub fn new(readiness: Readiness, shutdown: Shutdown) -> Self {
        Self { readiness, shutdown, calls: TaskTracker::new(), cut: CancellationToken::new() }
    }

    /// Admits a call, which runs until the token is dropped; `None` once draining.
    pub fn enter(&self) -> Option<TaskTrackerToken> {
        let token = self.calls.token();
        (!self.shutdown.is_draining()).then_some(token)
    }

    /// Resolves when calls must end now.
    pub fn cut(&self) -> WaitForCancellationFutureOwned {
        self.cut.clone().cancelled_owned()
    }

    /// From the beginning of the shutdown to the moment when nobody needs to be waited for.
    pub async fn run(&self) {
        self.shutdown.draining().await;
        self.readiness.set_draining();
        self.calls.close();
        let limit = self.shutdown.drain_limit();
        if tokio::time::timeout(limit, self.calls.wait()).await.is_err() {
            let calls = self.calls.len();
            tracing::warn!(calls, ?limit, "ending calls that outlasted the drain limit");
        } else {
            tokio::time::sleep(LINGER).await;
        }
        self.cut.cancel();
        tokio::time::sleep(FAREWELL).await;
    }
}

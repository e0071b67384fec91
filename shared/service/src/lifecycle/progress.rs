use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tracing::{info, warn};

use super::Readiness;

/// How often progress is looked at within a limit: the more often, the less a stall can outlast it.
const LOOKS: u32 = 8;

/// Does the thread that computes still do its work?
///
/// One that hangs, in a driver or for a lock, looks from outside like one that is busy: the process answers, calls are
/// accepted, and nothing comes back. So the thread says at every turn of its loop that it got there, and says when it has
/// nothing to do. Whether others should still send it work follows from these two facts and a limit, in
/// [`watch`](Self::watch). Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    n_turns: AtomicU64,
    is_working: AtomicBool,
}

impl Progress {
    /// Of a thread that has nothing to do yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A turn of the loop begins: whatever the last one did has come to an end.
    pub fn turn(&self) {
        self.shared.n_turns.fetch_add(1, Relaxed);
        self.shared.is_working.store(true, Relaxed);
    }

    /// There is nothing to do: silence means nothing from here to the next turn.
    pub fn rest(&self) {
        self.shared.is_working.store(false, Relaxed);
    }

    /// Makes the process unready while there is work and no turn has begun for `limit`, and ready again with the next
    /// turn. Only readiness: that the process is alive is true all along, and whether to restart it is for somebody to
    /// decide who knows what else runs there. Runs until dropped.
    ///
    /// A stall shows after `limit` and at most an eighth more. It is counted in looks, not in time passed, so that a
    /// process that was itself suspended does not wake up unready.
    pub async fn watch(self, readiness: Readiness, limit: Duration) {
        let (mut last_turn, mut n_looks) = (self.n_turns(), 0);
        loop {
            tokio::time::sleep(limit / LOOKS).await;
            let turn = self.n_turns();
            if turn == last_turn && self.shared.is_working.load(Relaxed) {
                n_looks += 1;
                if n_looks >= LOOKS && readiness.set_stalled() {
                    warn!(?limit, "not ready: work waits, and the engine has not moved for the limit");
                }
                continue;
            }
            (last_turn, n_looks) = (turn, 0);
            if readiness.set_moving() {
                info!("ready again: the engine moves");
            }
        }
    }

    fn n_turns(&self) -> u64 {
        self.shared.n_turns.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    /// Watched and ready.
    fn watched() -> (Progress, Readiness) {
        let (progress, readiness) = (Progress::new(), Readiness::new());
        readiness.set_ready();
        tokio::spawn(progress.clone().watch(readiness.clone(), LIMIT));
        (progress, readiness)
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_hangs_is_noticed_within_the_limit_and_an_eighth() {
        let (progress, readiness) = watched();
        progress.turn();
        tokio::time::sleep(LIMIT).await;
        assert!(readiness.is_ready(), "the limit is not over");
        tokio::time::sleep(LIMIT / LOOKS + Duration::from_millis(1)).await;
        assert!(!readiness.is_ready());
        progress.turn();
        tokio::time::sleep(LIMIT / LOOKS).await;
        assert!(readiness.is_ready(), "it moves again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_that_is_busy_or_has_nothing_to_do_does_not_hang() {
        let (progress, readiness) = watched();
        for _ in 0..10 {
            progress.turn();
            tokio::time::sleep(LIMIT * 3 / 4).await;
            assert!(readiness.is_ready(), "long turns");
        }
        progress.rest();
        tokio::time::sleep(100 * LIMIT).await;
        assert!(readiness.is_ready(), "nothing to do");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_does_not_hide_that_the_process_leaves() {
        let (progress, readiness) = watched();
        progress.turn();
        tokio::time::sleep(2 * LIMIT).await;
        readiness.set_draining();
        progress.turn();
        tokio::time::sleep(LIMIT).await;
        assert!(!readiness.is_ready(), "leaving is final");
    }
}

//! Is there room for another request, and if not, when will there be?
//!
//! A queue without end makes everybody wait and serves nobody more. So there are only so many places, for those who run
//! and those who wait; and of those who would have to wait for longer than it is worth, none is let in. Both refusals say
//! when to come again, and neither that nor how long a queue lasts is a guess: while somebody waits, the engine works at
//! its capacity, and the time from one place that becomes free to the next is what a place costs. That is measured, with
//! the prompts, lengths and acceptance of the requests that there are, and with the time that their clients take to read:
//! a place is free when its client has been told the end, and not when the engine is done.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    error::{Error, Overload},
    request::Deadline,
};

/// How much the newest time between two who leave counts.
const SMOOTHING: f64 = 0.125;
/// Coming again costs both sides something, and a request takes longer than this.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);
/// Nobody can see further ahead: by then it will be another load.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The places of an engine. Shared by those who ask for one and the engine, which says how many wait.
#[derive(Debug)]
pub(crate) struct Places {
    n_places: usize,
    /// The longest that a request may be expected to wait for its turn.
    longest_wait: Duration,
    free: Arc<Semaphore>,
    turnover: Mutex<Turnover>,
}

/// Places that nothing has been done with yet. They are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    places: Arc<Places>,
    taken: OwnedSemaphorePermit,
}

/// The place of a sequence, until it is dropped: from its admission until its client has been told its end, or, if that is
/// later, until an answer in one piece is written.
#[derive(Debug)]
pub(crate) struct Permit(Reservation);

/// How quickly places become free while they are wanted.
#[derive(Debug, Default)]
struct Turnover {
    n_waiting: usize,
    /// Since when somebody has wanted the next place; `None` while there is room.
    wanted_since: Option<Instant>,
    /// From one who leaves to the next, in seconds; `None` before the first measurement.
    interval: Option<f64>,
}

impl Places {
    pub(crate) fn new(n_places: usize, longest_wait: Duration) -> Self {
        let free = Arc::new(Semaphore::new(n_places));
        Self { n_places, longest_wait, free, turnover: Mutex::default() }
    }

    pub(crate) fn n_places(&self) -> usize {
        self.n_places
    }

    /// Whether a request that has until `deadline` is worth taking in `now`.
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub(crate) fn check(&self, now: Instant, deadline: Option<Deadline>) -> Result<(), Error> {
        if self.free.available_permits() == 0 {
            return Err(self.full(now, 1));
        }
        let turnover = self.turnover();
        let wait = turnover.interval(now).saturating_mul(u32::try_from(turnover.n_waiting).unwrap_or(u32::MAX));
        let time_left = deadline.map_or(Duration::MAX, |deadline| deadline.at.saturating_duration_since(now));
        let allowed = self.longest_wait.min(time_left);
        if wait > allowed {
            return Err(overloaded(Overload::Queue { wait, allowed }, wait - allowed));
        }
        Ok(())
    }

    /// Takes `n` places, or none.
    ///
    /// # Errors
    /// [`Error::Overloaded`].
    pub(crate) fn take(self: &Arc<Self>, now: Instant, n: u32) -> Result<Reservation, Error> {
        let taken = self.free.clone().try_acquire_many_owned(n).map_err(|_| self.full(now, n))?;
        self.note_need(now, &mut self.turnover());
        Ok(Reservation { places: self.clone(), taken })
    }

    /// So many have not found room in the engine.
    pub(super) fn set_waiting(&self, now: Instant, n_waiting: usize) {
        let mut turnover = self.turnover();
        turnover.n_waiting = n_waiting;
        self.note_need(now, &mut turnover);
    }

    /// Notes whether a place is wanted. To be called whenever that may have changed, and not by the engine alone, which
    /// sleeps when it is done.
    fn note_need(&self, now: Instant, turnover: &mut Turnover) {
        let is_full = self.free.available_permits() == 0;
        turnover.wanted_since = (turnover.n_waiting > 0 || is_full).then(|| turnover.wanted_since.unwrap_or(now));
    }

    fn full(&self, now: Instant, n: u32) -> Error {
        let n_missing = n.saturating_sub(u32::try_from(self.free.available_permits()).unwrap_or(u32::MAX));
        let retry_after = self.turnover().interval(now).saturating_mul(n_missing.max(1));
        overloaded(Overload::Places { n_requests: self.n_places }, retry_after)
    }

    /// Locked for a few instructions: the engine's thread never waits here.
    fn turnover(&self) -> MutexGuard<'_, Turnover> {
        self.turnover.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// One of its places; `None` if there is none left.
    pub(crate) fn split(&mut self) -> Option<Self> {
        Some(Self { places: self.places.clone(), taken: self.taken.split(1)? })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        drop(self.taken.split(self.taken.num_permits()));
        self.places.note_need(Instant::now(), &mut self.places.turnover());
    }
}

impl Permit {
    pub(crate) fn new(place: Reservation) -> Self {
        Self(place)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.places.turnover().left(Instant::now());
    }
}

impl Turnover {
    /// Somebody leaves. Times in which nobody wanted the place say nothing about capacity.
    fn left(&mut self, now: Instant) {
        let Some(since) = self.wanted_since else { return };
        let sample = now.saturating_duration_since(since).as_secs_f64();
        self.interval = Some(self.interval.map_or(sample, |mean| mean + SMOOTHING * (sample - mean)));
        self.wanted_since = Some(now);
    }

    /// The mean time in which a place becomes free: as measured, and no less than nobody has left by now.
    fn interval(&self, now: Instant) -> Duration {
        let silence = self.wanted_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        Duration::from_secs_f64(self.interval.unwrap_or(0.0)).max(silence)
    }
}

fn overloaded(cause: Overload, retry_after: Duration) -> Error {
    Error::Overloaded { cause, retry_after: retry_after.clamp(SHORTEST_RETRY, LONGEST_RETRY) }
}

#[cfg(test)]
mod tests;

//! How much may be drafted while so many sequences share the target?
//!
//! A row of a pass costs nothing only as long as the pass is bound by reading the weights; from there on a draft row costs
//! as much as the token that it may save, and most are rejected. So the rounds of all sequences together stay within a
//! number of rows: drafts get shorter with load, and then rest.
//!
//! A resting draft must cost nothing. To open a session is not free: the draft reads the whole prompt, on cores and memory
//! that the target may share. So a sequence that would not be allowed to ask opens none. One that has begun without a session
//! opens it later, and has all the longer a prefix to be read. So it does not do that for a moment in which one request has
//! ended and the next is on its way, but when there has been room for drafts for a second.

use std::time::{Duration, Instant};

/// How long there must have been room before sequences that have begun without a session open one.
const CALM: Duration = Duration::from_secs(1);

/// What a sequence may do about a draft now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Draft tokens that it may ask for.
    pub(super) n_draft: usize,
    /// Whether it may open a session.
    pub(super) may_open: bool,
}

/// The load, as far as drafts are concerned.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Rows of all rounds of a pass up to which drafts are asked for.
    verify_rows: usize,
    /// When there was no room for drafts last.
    last_full: Option<Instant>,
}

impl Crowd {
    pub(super) fn new(verify_rows: usize) -> Self {
        Self { verify_rows, last_full: None }
    }

    /// What a newcomer may do that makes them `n_running`.
    pub(super) fn of_newcomer(&mut self, n_running: usize, now: Instant) -> Allowance {
        let n_draft = self.n_draft(n_running, now);
        Allowance { n_draft, may_open: n_draft > 0 }
    }

    /// What each of `n_running` sequences may do, which are all there are `now`.
    pub(super) fn of_running(&mut self, n_running: usize, now: Instant) -> Allowance {
        let n_draft = self.n_draft(n_running, now);
        let is_calm = self.last_full.is_none_or(|full| now.saturating_duration_since(full) >= CALM);
        Allowance { n_draft, may_open: n_draft > 0 && is_calm }
    }

    fn n_draft(&mut self, n_running: usize, now: Instant) -> usize {
        let n_draft = (self.verify_rows / n_running.max(1)).saturating_sub(1);
        if n_draft == 0 {
            self.last_full = Some(now);
        }
        n_draft
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_get_shorter_with_load_and_then_rest() {
        let (mut crowd, now) = (Crowd::new(8), Instant::now());
        let n_draft = [1, 2, 3, 4, 5, 8, 64].map(|n_running| crowd.of_running(n_running, now).n_draft);
        assert_eq!(n_draft, [7, 3, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn sessions_of_those_who_run_are_opened_when_there_has_been_room_for_a_while() {
        let (mut crowd, start) = (Crowd::new(8), Instant::now());
        let mut may_open = |n_running, after: Duration| crowd.of_running(n_running, start + after).may_open;
        assert!(may_open(4, Duration::ZERO));
        assert!(!may_open(5, Duration::from_millis(1)));
        // One leaves, another comes.
        assert!(!may_open(4, Duration::from_millis(2)));
        assert!(!may_open(5, Duration::from_millis(3)));
        assert!(!may_open(4, CALM));
        assert!(may_open(4, CALM + Duration::from_millis(3)));
    }

    #[test]
    fn a_newcomer_opens_one_at_once_if_there_is_room_with_it() {
        let (mut crowd, now) = (Crowd::new(8), Instant::now());
        assert!(!crowd.of_newcomer(5, now).may_open);
        assert!(crowd.of_newcomer(4, now).may_open && !crowd.of_running(4, now).may_open);
    }

    #[test]
    fn who_may_never_ask_never_opens() {
        let (mut crowd, now) = (Crowd::new(1), Instant::now());
        for allowance in [crowd.of_newcomer(1, now), crowd.of_running(1, now)] {
            assert_eq!(allowance, Allowance { n_draft: 0, may_open: false });
        }
    }
}

//! How long may a round wait for its proposal?
//!
//! A proposal is worth waiting for: it saves target passes. But the wait is only worth it if the proposal comes, and it
//! is paid by everybody who shares the pass. All rules about it stand here:
//!
//! 1. **Alone, a sequence waits for its own proposal and nothing else.** The pass starts the moment the proposal is in,
//!    or when the request's wait cap has passed since it was asked for. Then the round is plain. (A pass that ran
//!    without the sequence meanwhile does not count, the first time: while the target computes, a draft on the same cores
//!    hardly does.)
//! 2. **One question at a time.** While an answer is overdue the draft is not asked again and nobody waits: a frozen
//!    draft costs each of its sequences one wait cap, once.
//! 3. **A draft that keeps being late is asked less and less.** After the n-th overdue answer in a row the next
//!    2^n - 1 rounds (at most 63) are plain without a question, so that the share of time lost to waiting vanishes.
//!    One answer in time ends that.
//! 4. **Sequences that hold their proposals wait for the others at most as long as the pass takes.** Gathering them in
//!    one pass halves the work compared to two; waiting longer than a pass could lose more than it saves. (The
//!    ski-rental argument: never pay more than twice the best choice.)
//! 5. **A sequence that cannot speculate pays at most an eighth of a pass** for the drafts of others.
//!
//! Where rules 4 and 5 end the patience, the pass runs without those whose answers are missing; these stay out of it and
//! keep waiting for their own answer under rule 1.

use std::time::{Duration, Instant};

/// Rule 5.
const SHARE_FOR_OTHERS: f64 = 0.125;
/// Rule 3: the longest pause is 2^6 - 1 rounds.
const MAX_LATE_EXPONENT: u32 = 6;
/// How much a new pass counts in the smoothed costs.
const SMOOTHING: f64 = 0.1;
/// From this many rows on a pass costs by the row.
const MANY_ROWS: usize = 32;

/// What a running sequence wants from the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// It has a proposal to test.
    Speculating {
        /// Rows of its round.
        n_rows: usize,
    },
    /// It can run now, without a proposal.
    Plain {
        /// Committed tokens to feed.
        n_rows: usize,
    },
    /// It has asked for a proposal.
    Waiting {
        /// When its round becomes plain.
        until: Instant,
    },
}

/// What the engine does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody has anything to run.
    Idle,
    /// Run a pass with those who can.
    Go,
    /// Look again when something arrives, or then.
    WaitUntil(Instant),
}

/// Since when somebody could run but waits for others.
#[derive(Debug, Default)]
pub(super) struct Patience {
    ready_since: Option<Instant>,
}

impl Patience {
    /// Rules 4 and 5. Members whose own time is up must have been turned plain before.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        budget: usize,
        members: impl Iterator<Item = Member>,
        cost: &PassCost,
    ) -> Verdict {
        let (mut n_rows, mut somebody_plain, mut first_deadline) = (0, false, None);
        for member in members {
            match member {
                Member::Speculating { n_rows: rows } => n_rows += rows,
                Member::Plain { n_rows: rows } => {
                    n_rows += rows;
                    somebody_plain = true;
                }
                Member::Waiting { until } => {
                    first_deadline = Some(first_deadline.map_or(until, |first: Instant| first.min(until)));
                }
            }
        }
        let verdict = match (n_rows, first_deadline) {
            (0, None) => Verdict::Idle,
            (0, Some(deadline)) => Verdict::WaitUntil(deadline),
            (_, None) => Verdict::Go,
            (_, Some(deadline)) => {
                let ready_since = *self.ready_since.get_or_insert(now);
                let pass = cost.of(n_rows.min(budget));
                let patience = if somebody_plain { pass.mul_f64(SHARE_FOR_OTHERS) } else { pass };
                let until = deadline.min(ready_since + patience);
                if now < until { Verdict::WaitUntil(until) } else { Verdict::Go }
            }
        };
        if n_rows == 0 || verdict == Verdict::Go {
            self.ready_since = None;
        }
        verdict
    }
}

/// What a pass of the target costs, learned from the passes so far.
#[derive(Debug, Default)]
pub(super) struct PassCost {
    few_rows: Option<f64>,
    per_row: Option<f64>,
}

impl PassCost {
    /// Takes a pass into account.
    pub(super) fn observe(&mut self, n_rows: usize, took: Duration) {
        let (smoothed, sample) = match n_rows < MANY_ROWS {
            true => (&mut self.few_rows, took.as_secs_f64()),
            false => (&mut self.per_row, took.as_secs_f64() / n_rows as f64),
        };
        *smoothed = Some(smoothed.map_or(sample, |mean| mean + SMOOTHING * (sample - mean)));
    }

    /// The expected duration of a pass of `n_rows`; zero before the first one.
    pub(super) fn of(&self, n_rows: usize) -> Duration {
        let by_row = self.per_row.filter(|_| n_rows >= MANY_ROWS).map_or(0.0, |cost| cost * n_rows as f64);
        Duration::from_secs_f64(self.few_rows.unwrap_or(0.0).max(by_row))
    }
}

/// Rule 3: how often one sequence asks a draft that is late.
#[derive(Debug, Default)]
pub(super) struct Reluctance {
    n_late: u32,
    n_to_skip: u32,
}

impl Reluctance {
    /// An answer did not come in time.
    pub(super) fn was_late(&mut self) {
        self.n_late = (self.n_late + 1).min(MAX_LATE_EXPONENT);
        self.n_to_skip = (1 << self.n_late) - 1;
    }

    /// An answer came in time.
    pub(super) fn was_in_time(&mut self) {
        *self = Self::default();
    }

    /// Whether to ask in this round. Counts the rounds that are skipped.
    pub(super) fn may_ask(&mut self) -> bool {
        if self.n_to_skip == 0 {
            return true;
        }
        self.n_to_skip -= 1;
        false
    }
}

#[cfg(test)]
mod tests;

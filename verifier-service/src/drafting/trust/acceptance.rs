//! Do a version's tokens still pass as often as they used to?
//!
//! A draft can turn useless and keep its version: a cache that gives back another prefix, a device that computes nonsense.
//! The output is as right as before, only its speed is gone, and nobody sees it. So each version's acceptance is compared
//! with its own past, and a fall raises an alarm. No more than that: other prompts or a higher temperature are honest
//! reasons for the same fall (whether q is true is for [the audit](specfleet_speculation::honesty) to say), so nothing is
//! decided by it.
//!
//! # The test
//!
//! Of each request a few tested tokens count ([`Quota`]), or a long one that runs alone would look like another draft. They
//! are put into blocks of [`BLOCK`], whichever requests they are of, which is four or more. The first [`N_LEARNED`] blocks
//! say which share is *usual*, m. From then on each block adds m/2 minus its own share to a sum that is never less than 0: a
//! one-sided CUSUM (Page, "Continuous inspection schemes", 1954), which stays near 0 as long as more than half of what is
//! usual passes. At [`LIMIT`] acceptance has fallen; it is back when the sum has come back to 0.
//!
//! - **Found:** a fall to a share s below m/2, after `LIMIT / (m/2 - s)` blocks. Where 60% used to pass and nothing does any
//!   more, that is 27 blocks: 7,000 tokens that count, of some hundred requests. Where 20% used to, it is 80 blocks.
//! - **Not found:** a fall to more than a half, what was useless from the first token on (less than [`LEAST_USUAL`]), what
//!   happens while the usual share is learned, and what befalls requests later than their tokens count.
//! - **False alarms:** say that m of a block pass on average, whatever came before it. However much blocks differ, even if of
//!   each all or none pass, exp(c (m/2 - share)) is at most 1 on average for c = 1.5936, where 1 - exp(-c) = c/2. So the
//!   average time to a false alarm is exp(c LIMIT) or more: 344,000 blocks, 88 million tokens that count (Lorden, "Procedures
//!   for reacting to a change in distribution", 1971). Blocks of real traffic differ far less, and m is learned from 256
//!   requests or more. The tests simulate both.

use std::fmt;

mod quota;

pub(crate) use quota::Quota;

/// Tokens that count as one.
const BLOCK: u64 = 256;
/// Blocks from which the usual share is learned.
const N_LEARNED: u64 = 64;
/// Blocks that must be missing, in all.
const LIMIT: f64 = 8.0;
/// With a usual share below this there is nothing to lose.
const LEAST_USUAL: f64 = 0.05;

/// The running comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    learned: Counts,
    /// Of the block that is not full yet.
    block: Counts,
    shortfall: f64,
    /// All blocks since the sum was last 0.
    low: Counts,
    has_fallen: bool,
}

/// Tokens, and how many of them passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) tested: u64,
    pub(super) accepted: u64,
}

/// What a block may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Far fewer tokens pass than usual.
    Fell {
        /// The share that used to pass.
        usual: f64,
        /// Since when it is less than half of that.
        low: Counts,
    },
    /// They pass again.
    Recovered,
}

impl Watch {
    /// Takes in what counts of a round, and says what it has changed.
    pub(super) fn observe(&mut self, round: Counts) -> Option<Change> {
        self.block += round;
        if self.block.tested < BLOCK {
            return None;
        }
        let block = std::mem::take(&mut self.block);
        let Some(usual) = self.usual() else {
            self.learned += block;
            return None;
        };
        if usual < LEAST_USUAL {
            return None;
        }
        // A ceiling, so that the way back is no longer for a fall that has lasted.
        self.shortfall = (self.shortfall + 0.5 * usual - block.share()).clamp(0.0, LIMIT);
        self.low += block;
        if self.shortfall == 0.0 {
            self.low = Counts::default();
            return std::mem::take(&mut self.has_fallen).then_some(Change::Recovered);
        }
        let falls = self.shortfall == LIMIT && !self.has_fallen;
        self.has_fallen |= falls;
        falls.then_some(Change::Fell { usual, low: self.low })
    }

    /// The share that passed while it was learned; `None` until it is known.
    pub(super) fn usual(&self) -> Option<f64> {
        (self.learned.tested >= N_LEARNED * BLOCK).then(|| self.learned.share())
    }

    /// Of the tokens that count those since too few pass; none while enough do.
    pub(super) fn low(&self) -> Counts {
        self.low
    }

    pub(super) fn has_fallen(&self) -> bool {
        self.has_fallen
    }
}

impl Counts {
    fn share(self) -> f64 {
        self.accepted as f64 / self.tested as f64
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.tested += other.tested;
        self.accepted += other.accepted;
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fell { usual, low } => write!(
                f,
                "acceptance fell: {:.1}% of the last {} draft tokens that count passed, {:.1}% used to",
                100.0 * low.share(),
                low.tested,
                100.0 * usual
            ),
            Self::Recovered => f.write_str("acceptance is back: draft tokens pass again"),
        }
    }
}

#[cfg(test)]
mod tests;

//! How much of a pass's time may masks take?
//!
//! They are computed one after the other behind the pass, on the engine's thread, and everybody waits for them. Most take
//! microseconds. But a grammar comes from a client, and what one mask may take at the most (see `specfleet_grammar`) is a
//! pass's time and more. So the masks of a pass have a budget, and those that are dear take turns. As far as masks take what
//! they are thought to take, nobody else waits longer than for the budget, and for the masks of one round where that alone
//! takes more.
//!
//! What masks are going to take is estimated by those of earlier rounds, of other outputs of the form where there are none.
//! Nobody knows what a new form is like, so its first masks take turns as if each took all of the time.

use std::time::Duration;

/// What the masks behind a pass may take. A pass takes some milliseconds at the least; the masks of a schema that people use
/// take microseconds, and a few tenths of a millisecond where it is new.
const MASK_TIME: Duration = Duration::from_millis(8);

/// What a mask of a form is thought to take until some have been computed.
pub(in crate::engine) const UNKNOWN_MASK: Duration = MASK_TIME;

/// A part of [`MASK_TIME`] so small that masks within it are no burden, and take no turns. As many as usually run at a time
/// take as long as the budget together.
const NO_BURDEN: u32 = 64;

/// The time for masks that is left in a pass.
#[derive(Debug)]
pub(super) struct MaskTime {
    left: Duration,
    somebody_has_some: bool,
}

impl MaskTime {
    pub(super) fn new() -> Self {
        Self { left: MASK_TIME, somebody_has_some: false }
    }

    /// Whether masks that take so long can be computed. The first of those that are a burden always are. Behind one for
    /// whom too little was left there is none: they would overtake it for ever.
    pub(super) fn grant(&mut self, masks: Duration) -> bool {
        if masks <= MASK_TIME / NO_BURDEN {
            return true;
        }
        let fits = masks <= self.left || !self.somebody_has_some;
        self.somebody_has_some = true;
        self.left = if fits { self.left.saturating_sub(masks) } else { Duration::ZERO };
        fits
    }
}

/// How many draft tokens the masks of one round leave time for.
pub(in crate::engine) fn n_draft_masked(mask_cost: Duration) -> usize {
    let n_masks = MASK_TIME.as_nanos().checked_div(mask_cost.as_nanos());
    n_masks.map_or(usize::MAX, |n_masks| usize::try_from(n_masks).unwrap_or(usize::MAX).saturating_sub(1))
}

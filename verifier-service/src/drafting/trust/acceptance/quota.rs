//! Requests differ far more than the tokens of one do: how much of a request is news about the draft?

use super::Counts;

/// Tested tokens of a request that count: a quarter of a block.
const MOST_OF_A_REQUEST: u64 = 64;

/// How many of a request's tested tokens still count.
#[derive(Debug)]
pub(crate) struct Quota(u64);

impl Quota {
    /// Of one continuation of a request: beside the first, others of the same prompt are no news.
    pub(crate) fn of_choice(index: u32) -> Self {
        Self(if index == 0 { MOST_OF_A_REQUEST } else { 0 })
    }

    /// What counts of the next round: its first tokens, and what passed comes first.
    pub(in crate::drafting::trust) fn take(&mut self, round: Counts) -> Counts {
        let tested = round.tested.min(self.0);
        self.0 -= tested;
        Counts { tested, accepted: round.accepted.min(tested) }
    }
}

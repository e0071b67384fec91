//! Who gets rows in the next forward pass?
//!
//! A pass costs about the same for one row as for a handful, and then grows with every row. So decoding sequences share
//! one pass, and a long prompt is cut into chunks that ride along, instead of stopping everybody for its whole length.
//! (Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve", 2024, section 4.)
//!
//! - Rows of a pass never exceed the budget.
//! - Decoding sequences come first, the one that was served longest ago before the others. A sequence gets all rows of
//!   its round or none: cutting a proposal to fit would make rounds depend on who else is there.
//! - While a prompt waits, a quarter of the budget is kept for it, so that neither side can starve the other. A round that
//!   does not fit beside that quarter takes turns with the prompt.
//! - Prompts are served in order of age: finishing one is worth more than advancing all. But those behind a long one that
//!   a quarter of its rows are enough for do not wait for it.
//! - Masks of grammars have a budget of their own, in time: see [`mask_time`].
//!
//! Nothing here knows a token. Whether a draft position is tested may depend only on what was known before its token
//! was drawn, and a scheduler that cannot see tokens cannot break that.

use std::time::Duration;

mod mask_time;

use mask_time::MaskTime;
pub(super) use mask_time::{UNKNOWN_MASK, n_draft_masked};

/// A sequence that could run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Committed tokens that are not in its KV memory yet; at least 1. Exactly 1 while it decodes.
    pub(super) n_pending: usize,
    /// Draft tokens that it asked for and may have got.
    pub(super) n_draft: usize,
    /// When it was served last: grants are counted.
    pub(super) last_turn: u64,
    /// What a mask of its grammar is likely to take, going by earlier ones; nothing without a grammar.
    pub(super) mask_cost: Duration,
}

impl Candidate {
    /// All rows of its round.
    fn round(self) -> Work {
        Work { n_fed: self.n_pending, n_draft: self.n_draft }
    }

    /// What the masks of its round may take: one for each draft token, and one behind them.
    fn masks(self) -> Duration {
        self.mask_cost.saturating_mul(u32::try_from(self.n_draft + 1).unwrap_or(u32::MAX))
    }
}

/// A share of a pass for one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// Index of the candidate.
    pub(super) index: usize,
    pub(super) work: Work,
}

/// The rows of a sequence: `n_fed` committed tokens, then `n_draft` draft tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// Committed tokens that enter the KV memory.
    pub(super) n_fed: usize,
    /// Draft tokens that are tested after them.
    pub(super) n_draft: usize,
}

impl Work {
    pub(super) fn n_rows(self) -> usize {
        self.n_fed + self.n_draft
    }
}

/// The share of the budget that a waiting prompt can count on.
const PROMPT_SHARE: usize = 4;
/// The share of that for short prompts, which a long one would stall.
const SHORT_SHARE: usize = 4;

/// Distributes `budget` rows over the candidates, oldest sequence first; `None` marks a sequence that cannot run now.
/// Whoever is served gets his turn in the order of the answer. If anyone can run, someone does: the budget holds at least
/// one round.
pub(super) fn plan(candidates: &[Option<Candidate>], budget: usize) -> Vec<Grant> {
    let candidates = candidates.iter().enumerate().filter_map(|(index, candidate)| Some((index, (*candidate)?)));
    let (prompts, mut decoding): (Vec<_>, Vec<_>) = candidates.partition(|(_, candidate)| candidate.n_pending > 1);
    decoding.sort_by_key(|(_, candidate)| candidate.last_turn);
    let kept_for_prompts = match (prompts.first(), decoding.first()) {
        (None, _) => 0,
        (Some((_, prompt)), Some((_, next))) if next.last_turn <= prompt.last_turn => {
            (budget / PROMPT_SHARE).min(budget.saturating_sub(next.round().n_rows()))
        }
        (Some(_), _) => budget / PROMPT_SHARE,
    };
    let mut left = budget - kept_for_prompts;
    let (mut grants, mut mask_time) = (Vec::new(), MaskTime::new());

    for (index, candidate) in decoding {
        let work = candidate.round();
        if work.n_rows() > left {
            // Smaller rounds behind it would overtake it for ever.
            break;
        }
        if !mask_time.grant(candidate.masks()) {
            continue;
        }
        left -= work.n_rows();
        grants.push(Grant { index, work });
    }

    left += kept_for_prompts;
    for ((index, candidate), mut n_fed) in prompts.iter().copied().zip(shares(&prompts, left)) {
        if n_fed == candidate.n_pending && !mask_time.grant(candidate.mask_cost) {
            // Its last token is a round for another pass.
            n_fed -= 1;
        }
        if n_fed > 0 {
            grants.push(Grant { index, work: Work { n_fed, n_draft: 0 } });
        }
    }
    grants
}

/// How many of `n_rows` each prompt gets, oldest first.
fn shares(prompts: &[(usize, Candidate)], n_rows: usize) -> Vec<usize> {
    let n_pending = || prompts.iter().map(|(_, prompt)| prompt.n_pending);
    let (mut left, mut left_for_short) = (n_rows, n_rows / SHORT_SHARE);
    let short = |n_pending| {
        let share = if n_pending <= left_for_short { n_pending } else { 0 };
        left_for_short -= share;
        share
    };
    let mut shares: Vec<usize> = n_pending().map(short).collect();
    left -= shares.iter().sum::<usize>();
    for (share, n_pending) in shares.iter_mut().zip(n_pending()) {
        let more = (n_pending - *share).min(left);
        *share += more;
        left -= more;
    }
    shares
}

#[cfg(test)]
mod tests;

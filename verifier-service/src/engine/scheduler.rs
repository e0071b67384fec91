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
//! - Prompts are served in order of age: finishing one is worth more than advancing all.
//!
//! Nothing here knows a token. Whether a draft position is tested may depend only on what was known before its token
//! was drawn, and a scheduler that cannot see tokens cannot break that.

/// A sequence that could run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Committed tokens that are not in its KV memory yet; at least 1. Exactly 1 while it decodes.
    pub(super) n_pending: usize,
    /// Draft tokens that it asked for and may have got.
    pub(super) n_draft: usize,
    /// When it was served last: grants are counted.
    pub(super) last_turn: u64,
}

impl Candidate {
    /// All rows of its round.
    fn round(self) -> Work {
        Work { n_fed: self.n_pending, n_draft: self.n_draft }
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
    let mut grants = Vec::new();

    for (index, candidate) in decoding {
        let work = candidate.round();
        if work.n_rows() > left {
            // Smaller rounds behind it would overtake it for ever.
            break;
        }
        left -= work.n_rows();
        grants.push(Grant { index, work });
    }

    left += kept_for_prompts;
    for (index, Candidate { n_pending, .. }) in prompts {
        let n_fed = n_pending.min(left);
        if n_fed > 0 {
            left -= n_fed;
            grants.push(Grant { index, work: Work { n_fed, n_draft: 0 } });
        }
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding(n_draft: usize, last_turn: u64) -> Option<Candidate> {
        Some(Candidate { n_pending: 1, n_draft, last_turn })
    }

    fn prompt(n_pending: usize) -> Option<Candidate> {
        Some(Candidate { n_pending, n_draft: 0, last_turn: 0 })
    }

    fn grant(index: usize, n_fed: usize, n_draft: usize) -> Grant {
        Grant { index, work: Work { n_fed, n_draft } }
    }

    #[test]
    fn rounds_of_any_length_share_a_pass() {
        let candidates = [decoding(0, 0), decoding(4, 0), None, decoding(1, 0)];
        assert_eq!(plan(&candidates, 16), [grant(0, 1, 0), grant(1, 1, 4), grant(3, 1, 1)]);
    }

    #[test]
    fn a_prompt_rides_along_with_what_is_left() {
        let candidates = [decoding(3, 0), prompt(100), prompt(5)];
        assert_eq!(plan(&candidates, 16), [grant(0, 1, 3), grant(1, 12, 0)]);
    }

    #[test]
    fn a_short_prompt_leaves_room_for_the_next() {
        assert_eq!(plan(&[prompt(5), prompt(100)], 16), [grant(0, 5, 0), grant(1, 11, 0)]);
    }

    #[test]
    fn decoding_cannot_starve_a_prompt() {
        let candidates = [decoding(3, 0), decoding(3, 0), decoding(3, 0), decoding(3, 0), prompt(9)];
        let grants = plan(&candidates, 16);
        assert_eq!(grants.len(), 4, "three rounds and the prompt");
        assert_eq!(grants[3], grant(4, 4, 0));
    }

    /// The smallest budget that is allowed: the rows of one round.
    #[test]
    fn rounds_as_long_as_the_budget_take_turns_with_a_prompt() {
        let (mut last_turn, mut n_served) = ([0_u64; 3], [0; 3]);
        for turn in 1..=30 {
            let candidates = [decoding(17, last_turn[0]), decoding(17, last_turn[1]), prompt(1000)];
            let prompt = candidates[2].map(|prompt| Candidate { last_turn: last_turn[2], ..prompt });
            let grants = plan(&[candidates[0], candidates[1], prompt], 18);
            assert_eq!(grants.len(), 1);
            last_turn[grants[0].index] = turn;
            n_served[grants[0].index] += 1;
        }
        assert_eq!(n_served, [10; 3]);
    }

    #[test]
    fn who_was_left_out_is_next() {
        let (mut last_turn, mut n_served, mut turn) = ([0_u64; 5], [0; 5], 0);
        for _ in 0..20 {
            let grants = plan(&last_turn.map(|last_turn| decoding(7, last_turn)), 16);
            assert_eq!(grants.len(), 2);
            for Grant { index, .. } in grants {
                turn += 1;
                last_turn[index] = turn;
                n_served[index] += 1;
            }
        }
        assert_eq!(n_served, [8; 5]);
    }

    #[test]
    fn a_long_round_is_not_overtaken_for_ever() {
        let candidates = [decoding(0, 5), decoding(0, 6), decoding(3, 4)];
        assert_eq!(plan(&candidates, 4), [grant(2, 1, 3)]);
    }

    #[test]
    fn many_long_rounds_never_exceed_the_budget() {
        let grants = plan(&vec![decoding(8, 0); 256], 128);
        let n_rows: usize = grants.iter().map(|grant| grant.work.n_rows()).sum();
        assert_eq!(n_rows, 14 * 9);
    }
}

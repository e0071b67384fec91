//! How many rows each session gives to the next forward pass.
//!
//! A pass takes as long as its rows. A prefix of thousands of tokens in one pass would hold up every other session for as
//! long as it takes, so long prefixes share a budget of rows. Sessions in the middle of a draft, which have one row or a
//! few, are never held up by it.

use super::Memory;
use crate::engine::session::Session;

/// At most this many rows go outside the budget: what a round commits, with room to spare.
pub(super) const FEW_ROWS: usize = 16;

/// Rows of one session: those it could give, or those it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) n_rows: usize,
    /// Whether the last of them is the end of the sequence, where a token is drawn.
    pub(crate) reaches_end: bool,
    /// Whether somebody waits for a proposal.
    pub(crate) is_awaited: bool,
}

impl Rows {
    /// What the session could give: nothing once its proposal is complete. Without a draft it stops before the last
    /// committed token: more may come, and that one has to be computed when a proposal is asked for.
    pub(crate) fn of(session: &Session<Memory>) -> Self {
        let (n_committed, n_cached) = (session.prefix.len(), session.memory.cached.len());
        match &session.draft {
            Some(draft) if draft.is_done() => Self { n_rows: 0, reaches_end: false, is_awaited: true },
            Some(draft) => {
                let n_rows = (n_committed + draft.tokens().len()).saturating_sub(n_cached);
                Self { n_rows, reaches_end: true, is_awaited: true }
            }
            None => {
                let n_rows = n_committed.saturating_sub(1 + n_cached);
                Self { n_rows, reaches_end: false, is_awaited: false }
            }
        }
    }

    fn is_few(self) -> bool {
        self.is_awaited && self.n_rows <= FEW_ROWS
    }
}

/// Cuts what the sessions could give to what fits the next pass: few awaited rows always, then long prefixes that
/// somebody waits for, then those that nobody waits for yet, each in the order given, within `budget` rows.
pub(crate) fn share_rows(wanted: &[Rows], budget: usize) -> Vec<Rows> {
    let mut shared = wanted.to_vec();
    let mut budget = budget;
    for is_awaited in [true, false] {
        for rows in shared.iter_mut().filter(|rows| rows.is_awaited == is_awaited && !rows.is_few()) {
            let n_rows = rows.n_rows.min(budget);
            rows.reaches_end &= n_rows == rows.n_rows;
            rows.n_rows = n_rows;
            budget -= n_rows;
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn awaited(n_rows: usize) -> Rows {
        Rows { n_rows, reaches_end: true, is_awaited: true }
    }

    const fn cut(n_rows: usize) -> Rows {
        Rows { n_rows, reaches_end: false, is_awaited: true }
    }

    const fn background(n_rows: usize) -> Rows {
        Rows { n_rows, reaches_end: false, is_awaited: false }
    }

    #[test]
    fn shares() {
        let cases: [(&str, &[Rows], &[Rows]); 5] = [
            ("what fits goes whole", &[awaited(1), awaited(60)], &[awaited(1), awaited(60)]),
            ("a long prefix is cut and draws nothing", &[awaited(300)], &[cut(64)]),
            (
                "drafts are not held up by it",
                &[awaited(300), awaited(1), awaited(16)],
                &[cut(64), awaited(1), awaited(16)],
            ),
            ("the first comes first", &[awaited(50), awaited(50)], &[awaited(50), cut(14)]),
            (
                "nobody waits for the background",
                &[background(50), awaited(40), background(50)],
                &[background(24), awaited(40), background(0)],
            ),
        ];
        for (name, wanted, expected) in cases {
            assert_eq!(share_rows(wanted, 64), expected, "{name}");
        }
    }
}

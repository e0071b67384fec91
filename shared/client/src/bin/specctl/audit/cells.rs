//! Answers as categories that are common enough to be counted.
//!
//! The first few tokens of an answer can come in more ways than there are samples. A chi-square test wants cells of which
//! each side can expect several members. So the answers of both samples together are sorted into a tree by their
//! prefixes, and only branches that are common enough are told apart; what is rare at a branching is put together.
//!
//! ```text
//!          400 answers                 cells
//!   "The" 250       "In" 130    rest   20  (answers that begin with neither)
//!   "The sky" 200   ...                 ...
//!   rest 50                             50 ("The" and then something else)
//! ```
//!
//! The tree sees both samples as one and cannot favour a side, so the cells are as good as if they had been fixed before.

use std::collections::BTreeMap;

use crate::audit::chi_square::Counts;

/// The beginning of an answer. An answer that ended early is shorter.
pub(super) type Beginning = Vec<u32>;

/// Of the rarest cell, how many each side can expect.
const LEAST_EXPECTED: f64 = 10.0;

/// Sorts two samples into the same cells. Every answer is in one of them.
pub(super) fn cells(first: &[Beginning], second: &[Beginning]) -> Vec<Counts> {
    let mut root = Node::default();
    first.iter().for_each(|answer| root.insert(answer, Counts { first: 1, second: 0 }));
    second.iter().for_each(|answer| root.insert(answer, Counts { first: 0, second: 1 }));
    let smaller_side = root.counts.first.min(root.counts.second);
    // The side with the smaller share expects the fewest.
    let share = f64::from(smaller_side) / f64::from(root.counts.total().max(1));
    let mut cells = Vec::new();
    let rest = root.split(&|counts| f64::from(counts.total()) * share >= LEAST_EXPECTED, &mut cells);
    if rest.total() > 0 {
        // Too rare for a cell of its own.
        match cells.iter_mut().min_by_key(|cell| cell.total()) {
            Some(rarest) => *rarest = *rarest + rest,
            None => cells.push(rest),
        }
    }
    cells
}

/// Answers with the same tokens so far.
#[derive(Debug, Default)]
struct Node {
    counts: Counts,
    next: BTreeMap<u32, Node>,
}

impl Node {
    fn insert(&mut self, answer: &[u32], one: Counts) {
        self.counts = self.counts + one;
        if let Some((token, rest)) = answer.split_first() {
            self.next.entry(*token).or_default().insert(rest, one);
        }
    }

    /// Turns everything below into cells, except a rest that is too rare for one, which it returns.
    fn split(&self, is_common: &impl Fn(Counts) -> bool, cells: &mut Vec<Counts>) -> Counts {
        let common = self.next.values().filter(|node| is_common(node.counts));
        let mut told_apart = Counts::default();
        for node in common {
            let rest = node.split(is_common, cells);
            told_apart =
                told_apart + Counts { first: node.counts.first - rest.first, second: node.counts.second - rest.second };
        }
        let rest =
            Counts { first: self.counts.first - told_apart.first, second: self.counts.second - told_apart.second };
        if is_common(rest) {
            cells.push(rest);
            return Counts::default();
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(parts: &[(usize, &[u32])]) -> Vec<Beginning> {
        parts.iter().flat_map(|&(n, tokens)| std::iter::repeat_n(tokens.to_vec(), n)).collect()
    }

    fn sizes(cells: &[Counts]) -> Vec<(u32, u32)> {
        let mut sizes: Vec<_> = cells.iter().map(|cell| (cell.first, cell.second)).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn common_beginnings_are_told_apart_and_rare_ones_are_put_together() {
        let first = answers(&[(50, &[1, 1]), (30, &[1, 2]), (12, &[2, 1]), (4, &[3, 1]), (4, &[4, 1])]);
        let second = answers(&[(40, &[1, 1]), (40, &[1, 2]), (8, &[2, 2]), (12, &[5, 5])]);
        // 3 and 4 and 5 are rare, together they are not; 2 is common and what follows it is not.
        assert_eq!(sizes(&cells(&first, &second)), [(8, 12), (12, 8), (30, 40), (50, 40)]);
    }

    #[test]
    fn what_is_too_rare_even_together_joins_the_rarest_cell() {
        let first = answers(&[(60, &[1]), (30, &[2]), (3, &[3])]);
        let second = answers(&[(60, &[1]), (30, &[2]), (3, &[4])]);
        assert_eq!(sizes(&cells(&first, &second)), [(33, 33), (60, 60)]);
    }

    #[test]
    fn an_end_is_a_way_to_go_on() {
        let first = answers(&[(30, &[1]), (30, &[1, 1])]);
        let second = answers(&[(60, &[1, 1])]);
        assert_eq!(sizes(&cells(&first, &second)), [(30, 0), (30, 60)]);
    }

    #[test]
    fn every_answer_is_in_one_cell_whatever_the_samples() {
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % n
        };
        for n_answers in 0..200 {
            let mut sample = || -> Vec<Beginning> {
                (0..n_answers).map(|_| (0..below(4)).map(|_| below(3) as u32).collect()).collect()
            };
            let (first, second) = (sample(), sample());
            let total: Counts = cells(&first, &second).into_iter().sum();
            assert_eq!((total.first, total.second), (n_answers, n_answers));
        }
    }
}

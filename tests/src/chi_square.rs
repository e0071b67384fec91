//! Is a sample drawn from a known law? Pearson's chi-square test, with a threshold that no right law meets by chance.
//!
//! Under the law, the statistic has the mean `df` and the standard deviation `sqrt(2 df)`. A sample fails ten standard
//! deviations above the mean. By chance that happens about once in ten thousand samples with one degree of freedom, once
//! in a hundred million with 15, and ever more rarely with more.

use std::fmt;

/// The approximation by the chi-square law wants at least so many expected occurrences in each cell (Cochran, "Some
/// Methods for Strengthening the Common chi-square Tests", 1954).
const LEAST_EXPECTED: f64 = 5.0;

/// Standard deviations above the mean at which a sample fails.
const DEVIATIONS: f64 = 10.0;

/// The distance of a sample from a law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChiSquare {
    /// Sum over the cells of (count - expected)^2 / expected; infinite if something occurred that cannot.
    pub statistic: f64,
    /// Cells less one.
    pub degrees: usize,
}

impl ChiSquare {
    /// Of categories that occurred `counts[i]` times and have the probability `law[i]`. Categories that are expected less
    /// than five times are put together, the rarest first, until they are.
    pub fn of(counts: &[u64], law: &[f64]) -> Self {
        assert_eq!(counts.len(), law.len(), "each category has a count and a probability");
        let mut categories: Vec<(f64, u64)> = law.iter().copied().zip(counts.iter().copied()).collect();
        categories.sort_by(|left, right| left.0.total_cmp(&right.0));
        if categories.iter().any(|(probability, count)| *probability == 0.0 && *count > 0) {
            return Self { statistic: f64::INFINITY, degrees: 0 };
        }

        let n_trials = counts.iter().sum::<u64>() as f64;
        let mut cells: Vec<Cell> = Vec::new();
        for (probability, count) in categories {
            let category = Cell { expected: probability * n_trials, count: count as f64 };
            match cells.last_mut() {
                Some(cell) if cell.expected < LEAST_EXPECTED => cell.add(category),
                _ => cells.push(category),
            }
        }
        if let [.., before, last] = &mut cells[..]
            && last.expected < LEAST_EXPECTED
        {
            before.add(*last);
            cells.pop();
        }
        Self { statistic: cells.iter().map(Cell::statistic).sum(), degrees: cells.len().saturating_sub(1) }
    }

    /// What the statistic of a sample from the law stays below.
    pub fn threshold(&self) -> f64 {
        let degrees = self.degrees as f64;
        degrees + DEVIATIONS * (2.0 * degrees).sqrt()
    }

    /// Whether the sample may come from the law. One cell says nothing, and passes.
    pub fn passes(&self) -> bool {
        self.statistic.is_finite() && (self.degrees == 0 || self.statistic < self.threshold())
    }
}

/// Categories that are counted together.
#[derive(Clone, Copy)]
struct Cell {
    expected: f64,
    count: f64,
}

impl Cell {
    fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.count += other.count;
    }

    fn statistic(&self) -> f64 {
        (self.count - self.expected).powi(2) / self.expected
    }
}

impl fmt::Display for ChiSquare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chi-square {:.1}, df {}, threshold {:.1}", self.statistic, self.degrees, self.threshold())
    }
}

/// The first trial at which a sample that grows trial by trial fails the test. A right law is looked at as often as there
/// are trials, so `None` from a long sample says more than one test does, and a false alarm is likelier than in one test: with
/// one degree of freedom not 1 in 10,000 but 1 in 300 after 2,000 trials and 1 in 150 after 100,000 (counted in 20,000
/// simulated samples of each of two laws), and far less with more. Tests that look so often have fixed seeds.
pub fn detection(outcomes: impl IntoIterator<Item = usize>, law: &[f64]) -> Option<usize> {
    let mut counts = vec![0; law.len()];
    outcomes.into_iter().enumerate().find_map(|(index, outcome)| {
        counts[outcome] += 1;
        (!ChiSquare::of(&counts, law).passes()).then_some(index + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistic_is_the_one_of_the_textbook() {
        // A die thrown 60 times.
        let test = ChiSquare::of(&[5, 8, 9, 8, 10, 20], &[1.0 / 6.0; 6]);
        assert!((test.statistic - 13.4).abs() < 1e-9, "{test}");
        assert_eq!(test.degrees, 5);
        assert!(test.passes());
    }

    #[test]
    fn one_impossible_outcome_fails() {
        assert!(!ChiSquare::of(&[500, 499, 1], &[0.5, 0.5, 0.0]).passes());
    }

    #[test]
    fn rare_categories_are_put_together() {
        // Expected: 1, 2, 3 and 94 times. The first three make one cell of 6.
        let test = ChiSquare::of(&[3, 1, 2, 94], &[0.01, 0.02, 0.03, 0.94]);
        assert_eq!((test.statistic, test.degrees), (0.0, 1));
    }

    #[test]
    fn a_wrong_law_is_detected_where_the_threshold_is_crossed() {
        // Expected half and half, always the first: n / 2 + n / 2 = n is above 15.1 at the 16th trial.
        assert_eq!(detection(std::iter::repeat_n(0, 100), &[0.5, 0.5]), Some(16));
        assert_eq!(detection((0..10_000).map(|index| index % 2), &[0.5, 0.5]), None);
    }
}

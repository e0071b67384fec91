//! Do two samples of categories have the same law?
//!
//! With counts `a_i` of `A` and `b_i` of `B`, the statistic is the sum over cells of `(a_i B - b_i A)^2 / (A B (a_i + b_i))`.
//! If both samples have the same law it is about chi-square distributed, with as many degrees of freedom as there are
//! cells, less one. (Press et al., "Numerical Recipes", 3rd edition, section 14.3.) "About" is good enough when no cell is
//! rare, which is the business of [`cells`](super::cells).

use std::iter::Sum;
use std::ops::Add;

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// How often a cell occurred in each of two samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) first: u32,
    pub(super) second: u32,
}

impl Counts {
    pub(super) fn total(self) -> u32 {
        self.first + self.second
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { first: self.first + other.first, second: self.second + other.second }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Self::add)
    }
}

/// A statistic and its degrees of freedom. Those of independent comparisons add up to one of all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ChiSquare {
    pub(super) statistic: f64,
    pub(super) degrees: usize,
}

impl ChiSquare {
    /// Of two samples over the same cells, none of which is empty.
    pub(super) fn of(cells: &[Counts]) -> Self {
        let Counts { first, second } = cells.iter().copied().sum();
        let (all_first, all_second) = (f64::from(first), f64::from(second));
        let distance = |cell: &Counts| {
            let difference = f64::from(cell.first) * all_second - f64::from(cell.second) * all_first;
            difference.powi(2) / (all_first * all_second * f64::from(cell.total()))
        };
        Self { statistic: cells.iter().map(distance).sum(), degrees: cells.len().saturating_sub(1) }
    }

    /// The probability of a statistic as large as this, or larger, if the laws are the same. `None` without a degree of
    /// freedom: then nothing was compared.
    pub(super) fn p_value(self) -> Option<f64> {
        let law = ChiSquared::new(self.degrees as f64).ok().filter(|_| self.degrees > 0)?;
        Some(law.sf(self.statistic))
    }
}

impl Sum for ChiSquare {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            statistic: sum.statistic + part.statistic,
            degrees: sum.degrees + part.degrees,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counts(cells: &[(u32, u32)]) -> Vec<Counts> {
        cells.iter().map(|&(first, second)| Counts { first, second }).collect()
    }

    /// (10*60 - 20*30)^2 = 0; the second table by hand: expected 15 and 15 of 30, 15 and 15 of 30.
    #[test]
    fn known_tables_have_known_statistics() {
        assert_eq!(ChiSquare::of(&counts(&[(10, 20), (20, 40)])), ChiSquare { statistic: 0.0, degrees: 1 });
        let table = ChiSquare::of(&counts(&[(10, 20), (20, 10)]));
        assert!((table.statistic - 4.0 * 25.0 / 15.0).abs() < 1e-12, "{table:?}");
    }

    /// From printed tables: 3.841 at 5% with one degree of freedom, 16.266 at 0.1% with three, 30.665 at 1e-6.
    #[test]
    fn tails_are_those_of_the_tables() {
        for (degrees, statistic, p_value) in
            [(1, 3.841, 0.05), (3, 16.266, 0.001), (3, 30.665, 1e-6), (100, 135.807, 0.01)]
        {
            let table = ChiSquare { statistic, degrees };
            assert!((table.p_value().unwrap() / p_value - 1.0).abs() < 2e-3, "{table:?}: {:?}", table.p_value());
        }
    }

    #[test]
    fn a_single_cell_compares_nothing() {
        let table = ChiSquare::of(&counts(&[(10, 12)]));
        assert_eq!((table.degrees, table.p_value()), (0, None));
        assert_eq!(ChiSquare::of(&[]).p_value(), None);
    }
}

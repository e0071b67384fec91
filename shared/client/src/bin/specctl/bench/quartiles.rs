//! Median and spread of a few numbers.

use serde::Serialize;

/// The middle of a sample and its middle half.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Quartiles {
    pub(super) lower: f64,
    pub(super) median: f64,
    pub(super) upper: f64,
}

impl Quartiles {
    /// Interpolates between neighbours; `None` without values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, weight) = (place.floor() as usize, place.fract());
            values[below] * (1.0 - weight) + values[(below + 1).min(last)] * weight
        };
        Some(Self { lower: at(0.25), median: at(0.5), upper: at(0.75) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate() {
        assert_eq!(Quartiles::of(vec![]), None);
        assert_eq!(Quartiles::of(vec![3.0]), Some(Quartiles { lower: 3.0, median: 3.0, upper: 3.0 }));
        let four = Quartiles::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(four, Some(Quartiles { lower: 1.75, median: 2.5, upper: 3.25 }));
    }
}

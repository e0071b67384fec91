//! The greatest entries of a row of weights without sorting the row.
//!
//! Order is by weight, greatest first, and by index where weights are equal.

use std::cmp::Ordering;

use crate::lanes;

/// A bracket of this few entries is sorted rather than halved once more.
const FEW: usize = 512;

/// One positive weight and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub index: u32,
    pub weight: f32,
}

/// The `count` greatest positive entries, in no particular order; fewer if there are fewer.
pub(crate) fn greatest(weights: &[f32], count: usize) -> Vec<Entry> {
    let mut entries = entries_within(weights, floor_of_greatest(weights, count), f32::INFINITY);
    if count < entries.len() {
        entries.select_nth_unstable_by(count, order);
        entries.truncate(count);
    }
    entries
}

/// Where the running sum of the entries in order reaches a goal: at an entry of `low <= weight < high`.
pub(crate) struct Bracket {
    pub low: f32,
    pub high: f32,
    /// Sum of the weights of at least `high`; less than the goal.
    pub mass_above: f64,
}

/// Finds a bracket of few entries by halving. Positive f32 are ordered like their bit patterns, so halving patterns
/// closes in on any weight, however small, in at most thirty steps. `weights` are at most 1 and `goal` is positive and
/// less than their sum.
pub(crate) fn bracket_of_mass(weights: &[f32], goal: f64) -> Bracket {
    let (mut low, mut high) = (1_u32, 1.0_f32.to_bits() + 1);
    let (mut n_above, mut mass_above) = (0, 0.0);
    let (mut n_from_low, _) = lanes::mass_at_least(weights, f32::from_bits(low));
    while n_from_low - n_above > FEW && high - low > 1 {
        let middle = low + (high - low) / 2;
        let (n_from_middle, mass) = lanes::mass_at_least(weights, f32::from_bits(middle));
        if mass < goal {
            (high, n_above, mass_above) = (middle, n_from_middle, mass);
        } else {
            (low, n_from_low) = (middle, n_from_middle);
        }
    }
    Bracket { low: f32::from_bits(low), high: f32::from_bits(high), mass_above }
}

/// The entries of `low <= weight < high` in order.
pub(crate) fn descending(weights: &[f32], low: f32, high: f32) -> Vec<Entry> {
    let mut entries = entries_within(weights, low, high);
    entries.sort_unstable_by(order);
    entries
}

fn order(left: &Entry, right: &Entry) -> Ordering {
    right.weight.total_cmp(&left.weight).then(left.index.cmp(&right.index))
}

/// A positive weight that at least `count` entries reach, and not many more; the least positive weight if there are
/// not enough entries to tell.
fn floor_of_greatest(weights: &[f32], count: usize) -> f32 {
    let least = f32::from_bits(1);
    let mut maxima = lanes::group_maxima(weights);
    if count == 0 || count > maxima.len() {
        return least;
    }
    let (_, floor, _) = maxima.select_nth_unstable_by(count - 1, |left, right| right.total_cmp(left));
    floor.max(least)
}

/// The entries of `low <= weight < high` by index.
fn entries_within(weights: &[f32], low: f32, high: f32) -> Vec<Entry> {
    /// Most strides hold nothing of interest, and one vector comparison tells.
    const STRIDE: usize = 32;
    let mut entries = Vec::new();
    for (stride_index, stride) in weights.chunks(STRIDE).enumerate() {
        if stride.iter().fold(false, |any, weight| any | (*weight >= low)) {
            let within = stride.iter().enumerate().filter(|(_, weight)| (low..high).contains(*weight));
            let first = stride_index * STRIDE;
            entries.extend(within.map(|(offset, weight)| Entry { index: (first + offset) as u32, weight: *weight }));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few different values, so that ties abound, and zeros.
    fn weights() -> impl Strategy<Value = Vec<f32>> {
        prop::collection::vec((0_u8..40).prop_map(|step| f32::from(step) / 39.0), 1..1500)
    }

    fn sorted(weights: &[f32]) -> Vec<Entry> {
        let entries = weights.iter().enumerate().map(|(index, weight)| Entry { index: index as u32, weight: *weight });
        let mut entries: Vec<Entry> = entries.filter(|entry| entry.weight > 0.0).collect();
        entries.sort_by(order);
        entries
    }

    proptest! {
        #[test]
        fn greatest_agrees_with_sorting(weights in weights(), count in 1_usize..300) {
            let mut expected = sorted(&weights);
            expected.truncate(count);
            let mut found = greatest(&weights, count);
            found.sort_by(order);
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_bracket_holds_the_entry_that_reaches_the_goal(weights in weights(), share in 0.01..0.99_f64) {
            let sorted = sorted(&weights);
            prop_assume!(!sorted.is_empty());
            let goal = share * sorted.iter().map(|entry| f64::from(entry.weight)).sum::<f64>();
            let mut running = 0.0;
            let crossing = sorted.iter().find(|entry| {
                running += f64::from(entry.weight);
                running >= goal
            });
            let bracket = bracket_of_mass(&weights, goal);
            prop_assert!(bracket.mass_above < goal);
            prop_assert!(crossing.is_some_and(|entry| (bracket.low..bracket.high).contains(&entry.weight)));
        }
    }
}

//! Loops over whole rows of the vocabulary, written so that the compiler turns them into vector instructions.
//!
//! A row has about fifty thousand entries and is shaped once for every token, so these few loops are most of what
//! this crate costs. Two rules keep results the same on every machine: sums run in sixteen fixed lanes, whatever the
//! width of the CPU's vectors, and products and sums are never fused.

use std::f32::consts::LOG2_E;

use multiversion::multiversion;

use crate::law::BLOCK;

const LANES: usize = 16;

/// Arguments below this give 0: the result would leave the range of normal f32.
const LEAST_EXPONENT: f32 = -87.0;

/// What one pass over a row of logits finds.
pub(crate) struct Scan {
    /// The greatest value; minus infinity for an empty row.
    pub max: f32,
    /// Whether the row holds neither NaN nor plus infinity.
    pub sound: bool,
}

/// Greatest value of a row, and whether it is free of NaN and plus infinity.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn scan(row: &[f32]) -> Scan {
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut unsound = [0_u32; LANES];
    let (chunks, tail) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let value = chunk[lane];
            max[lane] = if value > max[lane] { value } else { max[lane] };
            unsound[lane] |= u32::from(value.is_nan() | (value == f32::INFINITY));
        }
    }
    for (lane, value) in tail.iter().enumerate() {
        max[lane] = max[lane].max(*value);
        unsound[lane] |= u32::from(value.is_nan() | (*value == f32::INFINITY));
    }
    Scan {
        max: max.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value)),
        sound: unsound.iter().all(|lane| *lane == 0),
    }
}

/// Index of the first entry that equals `value`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn first_index_of(row: &[f32], value: f32) -> Option<usize> {
    const STRIDE: usize = 4 * LANES;
    let strides = row.chunks(STRIDE);
    let stride =
        strides.enumerate().find(|(_, stride)| stride.iter().fold(false, |found, entry| found | (*entry == value)));
    let (index, stride) = stride?;
    stride.iter().position(|entry| *entry == value).map(|offset| index * STRIDE + offset)
}

/// `exp((logit - max) * inverse_temperature)` for every logit, to about one part in 10^7. Logits far below the
/// maximum, and minus infinity, give exactly 0; the maximum gives exactly 1.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn exponentials(logits: &[f32], max: f32, inverse_temperature: f32, weights: &mut Vec<f32>) {
    weights.clear();
    weights.extend(logits.iter().map(|logit| exponential((logit - max) * inverse_temperature)));
}

/// Sum of each block of [`BLOCK`] values, in f64.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn block_totals(values: &[f32]) -> Vec<f64> {
    let (blocks, tail) = values.as_chunks::<BLOCK>();
    let mut totals = Vec::with_capacity(blocks.len() + 1);
    for block in blocks {
        let (rows, _) = block.as_chunks::<LANES>();
        let mut lanes = [0.0_f64; LANES];
        for row in rows {
            for lane in 0..LANES {
                lanes[lane] += f64::from(row[lane]);
            }
        }
        totals.push(sum_of_lanes(lanes));
    }
    if !tail.is_empty() {
        totals.push(tail.iter().map(|value| f64::from(*value)).sum());
    }
    totals
}

/// Number and sum of the values that are at least `threshold`.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn mass_at_least(values: &[f32], threshold: f32) -> (usize, f64) {
    let mut count = [0_u32; LANES];
    let mut mass = [0.0_f64; LANES];
    let (chunks, tail) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let kept = chunk[lane] >= threshold;
            count[lane] += u32::from(kept);
            mass[lane] += f64::from(if kept { chunk[lane] } else { 0.0 });
        }
    }
    for (lane, value) in tail.iter().enumerate() {
        let kept = *value >= threshold;
        count[lane] += u32::from(kept);
        mass[lane] += f64::from(if kept { *value } else { 0.0 });
    }
    (count.iter().map(|lane| *lane as usize).sum(), sum_of_lanes(mass))
}

/// Maxima of disjoint groups that cover all values: the i-th greatest of them is at most the i-th greatest value.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn group_maxima(values: &[f32]) -> Vec<f32> {
    let mut maxima = Vec::with_capacity(values.len() / LANES + 2 * LANES);
    for group in values.chunks(LANES * LANES) {
        let mut lanes = [0.0_f32; LANES];
        let (rows, tail) = group.as_chunks::<LANES>();
        for row in rows {
            for lane in 0..LANES {
                lanes[lane] = if row[lane] > lanes[lane] { row[lane] } else { lanes[lane] };
            }
        }
        for (lane, value) in tail.iter().enumerate() {
            lanes[lane] = lanes[lane].max(*value);
        }
        maxima.extend_from_slice(&lanes);
    }
    maxima
}

/// Sets the values below `threshold` to 0.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn clear_below(values: &mut [f32], threshold: f32) {
    for value in values {
        *value = if *value < threshold { 0.0 } else { *value };
    }
}

/// Pairwise, so that the order of additions is fixed and shallow.
#[inline(always)]
fn sum_of_lanes(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// e^x for x <= 0: 2^n times a polynomial in what is left, with |rest| <= ln(2)/2 (the range reduction of Cody and
/// Waite, "Software Manual for the Elementary Functions", 1980, chapter 6). No branch and no table, so it vectorises.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    /// Adding this rounds to an integer, which then stands in the low bits of the significand.
    const ROUNDER: f32 = 12_582_912.0;
    /// ln 2 in two parts; n times the first is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;

    let rounded = x * LOG2_E + ROUNDER;
    let n = rounded - ROUNDER;
    let rest = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // Taylor to the seventh power: the first omitted term is below 6e-9.
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + coefficient;
    }
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x >= LEAST_EXPONENT { sum * power } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exponentials_agree_with_f64_over_the_whole_range() {
        let arguments: Vec<f32> = (0..=870_000).map(|step| -(step as f32) * 1e-4).collect();
        let mut weights = Vec::new();
        exponentials(&arguments, 0.0, 1.0, &mut weights);
        for (x, weight) in arguments.iter().zip(weights) {
            let expected = f64::from(*x).exp();
            assert!((f64::from(weight) / expected - 1.0).abs() < 3e-7, "exp({x}) = {weight}, not {expected}");
        }
    }

    #[test]
    fn the_maximum_weighs_one_and_minus_infinity_nothing() {
        let mut weights = Vec::new();
        exponentials(&[3.5, f32::NEG_INFINITY, 3.5 - 88.0, f32::MIN], 3.5, 1.0, &mut weights);
        assert_eq!(weights, [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn one_bad_value_is_seen_wherever_it_stands() {
        for length in [1, 15, 16, 17, 300] {
            for index in 0..length {
                let mut row = vec![0.5; length];
                assert!(scan(&row).sound);
                for bad in [f32::NAN, f32::INFINITY] {
                    row[index] = bad;
                    assert!(!scan(&row).sound, "{bad} at {index} of {length}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn vector_loops_agree_with_plain_ones(
            values in prop::collection::vec(prop_oneof![Just(0.0), Just(0.25), 0.0..1.0f32], 1..700),
            threshold in 0.0..1.0f32,
        ) {
            let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            prop_assert_eq!(scan(&values).max, greatest);
            prop_assert_eq!(first_index_of(&values, greatest), values.iter().position(|value| *value == greatest));
            prop_assert_eq!(first_index_of(&values, 2.0), None);

            let kept: Vec<f64> = values.iter().filter(|value| **value >= threshold).map(|value| f64::from(*value)).collect();
            let (count, mass) = mass_at_least(&values, threshold);
            prop_assert_eq!(count, kept.len());
            prop_assert!((mass - kept.iter().sum::<f64>()).abs() < 1e-9);

            for (block, total) in values.chunks(BLOCK).zip(block_totals(&values)) {
                prop_assert!((block.iter().map(|value| f64::from(*value)).sum::<f64>() - total).abs() < 1e-12);
            }

            let (mut maxima, mut sorted) = (group_maxima(&values), values.clone());
            maxima.sort_by(|left, right| right.total_cmp(left));
            sorted.sort_by(|left, right| right.total_cmp(left));
            prop_assert!(maxima.iter().zip(&sorted).all(|(maximum, value)| maximum <= value));
            prop_assert_eq!(maxima[0], sorted[0]);
        }
    }
}

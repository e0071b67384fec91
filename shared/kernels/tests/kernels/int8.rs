//! Products with 8-bit weights against the same arithmetic one number at a time.

use half::bf16;
use proptest::prelude::*;
use specfleet_kernels::{Int8, Output, PackedLinear, embed, linear};

use crate::{
    pool,
    reference::{Numbers, assert_near, bits},
};

/// Inputs that share a scale.
const GROUP: usize = 64;

/// Numbers as integers from -127 to 127 and what to multiply these with.
fn rounded(numbers: &[bf16]) -> (Vec<i32>, f32) {
    let greatest = numbers.iter().map(|number| number.to_f32().abs()).fold(0.0, f32::max);
    let scale = greatest / 127.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let round = |number: &bf16| (number.to_f32() * inverse).round_ties_even() as i32;
    (numbers.iter().map(round).collect(), scale)
}

/// A row of the product: exact integers within a group, f32 from group to group.
fn product(weights: &[bf16], n_in: usize, bias: &[f32], x: &[bf16]) -> Vec<f32> {
    let output = |(row, bias): (&[bf16], &f32)| {
        let (row, row_scale) = rounded(row);
        let add = |sum: f32, (weights, x): (&[i32], &[bf16])| {
            let (x, scale) = rounded(x);
            let dot: i32 = weights.iter().zip(x).map(|(weight, x)| weight * x).sum();
            (dot as f32).mul_add(scale, sum)
        };
        row.chunks(GROUP).zip(x.chunks(GROUP)).fold(0.0, add) * row_scale + bias
    };
    weights.chunks(n_in).zip(bias).map(output).collect()
}

/// Numbers of which every 50th or so is much greater, as activations are.
fn uneven(numbers: &mut Numbers, n: usize) -> Vec<bf16> {
    let wide = |numbers: &mut Numbers| if numbers.below(50) == 0 { 40.0 } else { 1.0 };
    (0..n).map(|_| bf16::from_f32(numbers.floats(1)[0] * wide(numbers))).collect()
}

fn check(n_rows: usize, n_in: usize, n_out: usize, n_threads: usize) {
    let Some(pool) = pool(n_threads) else { return };
    let mut numbers = Numbers((n_rows + 100 * n_in + 100_000 * n_out) as u64);
    let (weights, x) = (uneven(&mut numbers, n_in * n_out), uneven(&mut numbers, n_rows * n_in));
    let (bias, before) = (numbers.floats(n_out), numbers.floats(n_rows * n_out));
    let packed = PackedLinear::<Int8>::pack(&pool, &[&weights], n_in, Some(bias.clone()));
    let (mut replaced, mut added) = (before.clone(), before.clone());
    linear(&pool, &packed, &x, &mut replaced, Output::Replace);
    linear(&pool, &packed, &x, &mut added, Output::Accumulate);
    let wanted: Vec<f32> = x.chunks(n_in).flat_map(|x| product(&weights, n_in, &bias, x)).collect();
    assert_eq!(bits(&replaced), bits(&wanted));
    let wanted: Vec<f32> = wanted.iter().zip(before).map(|(wanted, before)| before + wanted).collect();
    assert_eq!(bits(&added), bits(&wanted));
}

#[test]
fn products_have_the_bits_of_scalar_arithmetic() {
    for (n_rows, n_in, n_out) in [(1, 576, 960), (5, 1536, 576), (7, 64, 64), (33, 130, 200), (1, 1, 1)] {
        check(n_rows, n_in, n_out, 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn products_have_them_for_any_size(
        n_rows in 1usize..40, n_in in 1usize..200, n_out in 1usize..230, n_threads in 1usize..4,
    ) {
        check(n_rows, n_in, n_out, n_threads);
    }
}

#[test]
fn rounding_costs_less_than_a_hundredth() {
    const N_IN: usize = 576;
    let Some(pool) = pool(1) else { return };
    let mut numbers = Numbers(5);
    let (weights, x) = (numbers.elements::<bf16>(N_IN * 300), numbers.elements::<bf16>(N_IN));
    let (mut exact, mut coarse) = (vec![0.0; 300], vec![0.0; 300]);
    linear(&pool, &PackedLinear::<bf16>::pack(&pool, &[&weights], N_IN, None), &x, &mut exact, Output::Replace);
    linear(&pool, &PackedLinear::<Int8>::pack(&pool, &[&weights], N_IN, None), &x, &mut coarse, Output::Replace);
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
    let error = square(&mut exact.iter().zip(&coarse).map(|(exact, coarse)| exact - coarse));
    let size = square(&mut exact.iter().copied());
    assert!(error > 0.0 && error < 1e-4 * size, "{error} of {size}");
}

#[test]
fn half_the_bytes_and_a_scale_per_output() {
    let Some(pool) = pool(1) else { return };
    let weights = [bf16::ONE; 576 * 96];
    let packed = PackedLinear::<Int8>::pack(&pool, &[&weights], 576, None);
    assert_eq!(packed.n_bytes(), 96 * (576 + 4));
}

#[test]
fn an_embedding_out_of_a_tied_head_is_as_coarse_as_the_head() {
    let Some(pool) = pool(1) else { return };
    let table: Vec<bf16> = Numbers(4).elements(70 * 31);
    let packed = PackedLinear::<Int8>::pack(&pool, &[&table], 31, None);
    let mut out = vec![f32::NAN; 2 * 31];
    embed(&packed, &[69, 3], &mut out);
    for (token, out) in [69, 3].into_iter().zip(out.chunks(31)) {
        let row = &table[token * 31..][..31];
        let (_, scale) = rounded(row);
        for (out, weight) in out.iter().zip(row) {
            assert_near(f64::from(*out), weight.to_f64(), f64::from(scale) * 0.501, "weight");
        }
    }
}

#[test]
fn what_is_not_finite_is_not_hidden_and_what_is_zero_stays_so() {
    const N_IN: usize = 70;
    let Some(pool) = pool(1) else { return };
    let mut weights: Vec<bf16> = Numbers(6).elements(N_IN * 40);
    weights[7 * N_IN + 69] = bf16::NAN;
    weights[9 * N_IN..][..N_IN].fill(bf16::ZERO);
    let mut x: Vec<bf16> = Numbers(7).elements(4 * N_IN);
    x[N_IN + 3] = bf16::NAN;
    x[2 * N_IN + 66] = bf16::NEG_INFINITY;
    x[3 * N_IN..].fill(bf16::from_bits(1)); // too small to have an inverse
    let packed = PackedLinear::<Int8>::pack(&pool, &[&weights], N_IN, None);
    let mut y = vec![0.0; 4 * 40];
    linear(&pool, &packed, &x, &mut y, Output::Replace);
    for (index, y) in y.iter().enumerate() {
        let (row, output) = (index / 40, index % 40);
        assert_eq!(y.is_finite(), output != 7 && row != 1 && row != 2, "row {row}, output {output}: {y}");
        if row == 0 && output == 9 || row == 3 && output != 7 {
            assert_eq!(*y, 0.0);
        }
    }
}

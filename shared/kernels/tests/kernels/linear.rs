use half::bf16;
use proptest::prelude::*;
use specfleet_kernels::{Element, Int8, Output, PackedLinear, Weight, embed, linear};

use crate::{
    pool,
    reference::{Numbers, assert_near, bits},
};

struct Case<E> {
    n_in: usize,
    n_out: usize,
    weights: Vec<E>,
    bias: Option<Vec<f32>>,
    x: Vec<E>,
}

impl<E: Element> Case<E> {
    fn new(n_rows: usize, n_in: usize, n_out: usize, with_bias: bool) -> Self {
        let mut numbers = Numbers((n_rows + 100 * n_in + 100_000 * n_out) as u64);
        Self {
            n_in,
            n_out,
            weights: numbers.elements(n_in * n_out),
            bias: with_bias.then(|| numbers.floats(n_out)),
            x: numbers.elements(n_rows * n_in),
        }
    }

    fn check(&self, n_threads: usize) {
        let Some(pool) = pool(n_threads) else { return };
        let packed = PackedLinear::<E>::pack(&pool, &[&self.weights], self.n_in, self.bias.clone());
        assert_eq!((packed.n_in(), packed.n_out()), (self.n_in, self.n_out));
        let n_rows = self.x.len() / self.n_in;
        let before = Numbers(9).floats(n_rows * self.n_out);
        let (mut replaced, mut added) = (before.clone(), before.clone());
        linear(&pool, &packed, &self.x, &mut replaced, Output::Replace);
        linear(&pool, &packed, &self.x, &mut added, Output::Accumulate);
        for index in 0..replaced.len() {
            let (row, column) = (index / self.n_out, index % self.n_out);
            let (wanted, tolerance) = self.wanted(row, column);
            assert_near(replaced[index].into(), wanted, tolerance, "replace");
            let wanted = wanted + f64::from(before[index]);
            assert_near(added[index].into(), wanted, tolerance, "accumulate");
        }
    }

    /// The exact output and how far f32 sums may be from it.
    fn wanted(&self, row: usize, column: usize) -> (f64, f64) {
        let x = &self.x[row * self.n_in..][..self.n_in];
        let weights = &self.weights[column * self.n_in..][..self.n_in];
        let bias = self.bias.as_ref().map_or(0.0, |bias| bias[column].into());
        let products = x.iter().zip(weights).map(|(x, w)| f64::from(x.to_f32()) * f64::from(w.to_f32()));
        let (sum, size) = products.fold((bias, 2.0), |(sum, size), p| (sum + p, size + p.abs()));
        (sum, size * 1e-6)
    }
}

#[test]
fn linear_matches_the_exact_product() {
    for (n_rows, n_in, n_out) in [(1, 576, 960), (5, 1536, 576), (7, 64, 64), (33, 130, 200)] {
        Case::<bf16>::new(n_rows, n_in, n_out, false).check(2);
        Case::<f32>::new(n_rows, n_in, n_out, true).check(2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn linear_matches_for_any_size(
        n_rows in 1usize..40, n_in in 1usize..150, n_out in 1usize..230, with_bias: bool, n_threads in 1usize..4,
    ) {
        Case::<bf16>::new(n_rows, n_in, n_out, with_bias).check(n_threads);
        Case::<f32>::new(n_rows, n_in, n_out, with_bias).check(n_threads);
    }
}

#[test]
fn a_row_of_linear_has_the_same_bits_in_any_company() {
    a_row_has_the_same_bits_in_any_company::<bf16>();
    a_row_has_the_same_bits_in_any_company::<f32>();
    a_row_has_the_same_bits_in_any_company::<Int8>();
}

fn a_row_has_the_same_bits_in_any_company<W: Weight>() {
    const ROWS: usize = 33;
    let case = Case::<W::Input>::new(ROWS, 577, 1000, true);
    let Some(single) = pool(1) else { return };
    let packed = PackedLinear::<W>::pack(&single, &[&case.weights], case.n_in, case.bias.clone());
    let row = |row: usize| &case.x[row * case.n_in..][..case.n_in];
    let alone: Vec<_> = (0..ROWS)
        .map(|index| {
            let mut y = vec![0.0; case.n_out];
            linear(&single, &packed, row(index), &mut y, Output::Accumulate);
            bits(&y)
        })
        .collect();
    let mut numbers = Numbers(1);
    for n_threads in 1..=4 {
        let pool = pool(n_threads).unwrap();
        for n_rows in 1..=ROWS {
            let chosen: Vec<usize> = (0..n_rows).map(|_| numbers.below(ROWS)).collect();
            let x: Vec<W::Input> = chosen.iter().flat_map(|&index| row(index)).copied().collect();
            let mut y = vec![0.0; n_rows * case.n_out];
            linear(&pool, &packed, &x, &mut y, Output::Accumulate);
            for (y, index) in y.chunks_exact(case.n_out).zip(chosen) {
                assert_eq!(bits(y), alone[index], "{n_rows} rows, {n_threads} threads");
            }
        }
    }
}

#[test]
fn stacked_parts_equal_separate_products() {
    let Some(pool) = pool(2) else { return };
    let mut numbers = Numbers(3);
    let parts: [Vec<bf16>; 3] = [96, 33, 7].map(|n_out| numbers.elements(n_out * 50));
    let x = numbers.elements(4 * 50);
    let stacked = PackedLinear::<bf16>::pack(&pool, &[&parts[0], &parts[1], &parts[2]], 50, None);
    let mut together = vec![0.0; 4 * stacked.n_out()];
    linear(&pool, &stacked, &x, &mut together, Output::Replace);
    let mut first = 0;
    for part in &parts {
        let packed = PackedLinear::<bf16>::pack(&pool, &[part], 50, None);
        let mut y = vec![0.0; 4 * packed.n_out()];
        linear(&pool, &packed, &x, &mut y, Output::Replace);
        for (y, together) in y.chunks(packed.n_out()).zip(together.chunks(stacked.n_out())) {
            assert_eq!(bits(y), bits(&together[first..first + packed.n_out()]));
        }
        first += packed.n_out();
    }
}

#[test]
fn embedding_gives_the_rows_that_were_packed() {
    let Some(pool) = pool(2) else { return };
    embedding_gives_back_rows::<bf16>(&pool);
    embedding_gives_back_rows::<f32>(&pool);
}

fn embedding_gives_back_rows<E: Element>(pool: &specfleet_kernels::WorkerPool) {
    for width in [1, 31, 576] {
        let n_tokens = 150;
        let table: Vec<E> = Numbers(4).elements(n_tokens * width);
        let packed = PackedLinear::<E>::pack(pool, &[&table], width, None);
        let tokens = [149, 0, 64, 63, 64, 130, 17];
        let mut out = vec![f32::NAN; tokens.len() * width];
        embed(&packed, &tokens, &mut out);
        for (out, token) in out.chunks(width).zip(tokens) {
            let row = &table[token as usize * width..][..width];
            assert!(out.iter().zip(row).all(|(out, weight)| *out == weight.to_f32()));
        }
    }
}

#[test]
fn a_nan_weight_reaches_only_its_own_output() {
    let Some(pool) = pool(1) else { return };
    let mut case = Case::<bf16>::new(3, 40, 100, false);
    case.weights[77 * 40 + 39] = bf16::NAN;
    let packed = PackedLinear::<bf16>::pack(&pool, &[&case.weights], 40, None);
    let mut y = vec![0.0; 300];
    linear(&pool, &packed, &case.x, &mut y, Output::Replace);
    for (index, y) in y.iter().enumerate() {
        assert_eq!(y.is_nan(), index % 100 == 77);
    }
}

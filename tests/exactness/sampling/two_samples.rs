//! Do two samples come from one law, whatever that is?

use specfleet_tests::chi_square::ChiSquare;

/// Cells are put together, the rarest first, until this much is expected in each of both samples.
const LEAST_EXPECTED: f64 = 5.0;

/// Pearson's chi-square test of homogeneity. `counts` holds for each category its occurrences in both samples.
pub(crate) fn compare(counts: impl IntoIterator<Item = [u64; 2]>) -> ChiSquare {
    let mut categories: Vec<[f64; 2]> = counts.into_iter().map(|both| both.map(|count| count as f64)).collect();
    categories.sort_by(|left, right| (left[0] + left[1]).total_cmp(&(right[0] + right[1])));
    let sizes = categories.iter().fold([0.0, 0.0], sum);
    let shares = sizes.map(|size| size / (sizes[0] + sizes[1]));
    let is_small = |cell: &[f64; 2]| (cell[0] + cell[1]) * shares[0].min(shares[1]) < LEAST_EXPECTED;

    let mut cells: Vec<[f64; 2]> = Vec::new();
    for category in categories {
        match cells.last_mut() {
            Some(cell) if is_small(cell) => *cell = sum(*cell, &category),
            _ => cells.push(category),
        }
    }
    let of_cell = |cell: &[f64; 2]| -> f64 {
        let expected = shares.map(|share| share * (cell[0] + cell[1]));
        (0..2).map(|sample| (cell[sample] - expected[sample]).powi(2) / expected[sample]).sum()
    };
    ChiSquare { statistic: cells.iter().map(of_cell).sum(), degrees: cells.len().saturating_sub(1) }
}

fn sum(left: [f64; 2], right: &[f64; 2]) -> [f64; 2] {
    [left[0] + right[0], left[1] + right[1]]
}

#[test]
fn the_statistic_is_the_one_of_the_textbook() {
    // Expected: 30 and 30, 20 and 20.
    let test = compare([[36, 24], [14, 26]]);
    assert!((test.statistic - 6.0).abs() < 1e-12, "{test}");
    assert_eq!(test.degrees, 1);
}

#[test]
fn samples_of_different_laws_are_told_apart() {
    let test = compare([[100, 200], [100, 50], [100, 50]]);
    assert!(!test.passes(), "{test}");
    assert!(compare([[100, 105], [100, 95], [100, 100], [1, 0], [0, 1]]).passes());
}

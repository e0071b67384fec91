//! Few rows times packed weights: the loop that decides the speed of everything.
#![allow(unsafe_code)]

use std::{arch::x86_64::*, ops::Range};

use super::vector::first_lanes;
use crate::{
    Element, Output, PackedLinear,
    disjoint::Disjoint,
    isa::Isa,
    packed::{LANES, PANEL},
    split::balanced,
};

/// Rows of one pass. With the four lines of a panel that is 24 sums, which leaves registers for four
/// lines of weights and an input.
const MAX_ROWS: usize = 6;

/// How far ahead of its use a line of weights is asked for: what a core reads while memory answers.
const PREFETCH_BYTES: usize = 3072;

/// `y (+)= W x + b`, its operands with lengths already checked.
pub(crate) struct Product<'a, E> {
    pub(crate) weights: &'a PackedLinear<E>,
    pub(crate) x: &'a [E],
    pub(crate) y: &'a Disjoint<'a, f32>,
    pub(crate) n_rows: usize,
    pub(crate) output: Output,
}

/// The outputs of `panels`, for all rows.
///
/// # Safety
/// `x` is `[n_rows, n_in]`, `y` is `[n_rows, n_out]`, and no other thread touches the columns of
/// `panels` in `y`.
pub(crate) unsafe fn multiply<E: Element>(_isa: Isa, product: &Product<'_, E>, panels: Range<usize>) {
    // SAFETY: an `Isa` exists only where the instructions do; the rest is the caller's promise.
    unsafe { multiply_panels(product, panels) }
}

/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn multiply_panels<E: Element>(product: &Product<'_, E>, panels: Range<usize>) {
    for panel in panels {
        let n_outputs = product.weights.n_out() - panel * PANEL;
        for rows in balanced(product.n_rows, MAX_ROWS) {
            // SAFETY: the caller's promise, for some of the panels and rows.
            unsafe {
                match n_outputs.div_ceil(LANES) {
                    1 => pass_rows::<E, 1>(product, panel, rows),
                    2 => pass_rows::<E, 2>(product, panel, rows),
                    3 => pass_rows::<E, 3>(product, panel, rows),
                    _ => pass_rows::<E, 4>(product, panel, rows),
                }
            }
        }
    }
}

/// # Safety
/// As [`pass`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pass_rows<E: Element, const LINES: usize>(product: &Product<'_, E>, panel: usize, rows: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows.len() {
            1 => pass::<E, 1, LINES>(product, panel, rows.start),
            2 => pass::<E, 2, LINES>(product, panel, rows.start),
            3 => pass::<E, 3, LINES>(product, panel, rows.start),
            4 => pass::<E, 4, LINES>(product, panel, rows.start),
            5 => pass::<E, 5, LINES>(product, panel, rows.start),
            _ => pass::<E, 6, LINES>(product, panel, rows.start),
        }
    }
}

/// `ROWS` rows from `row` on times a panel of `LINES` lines.
///
/// # Safety
/// As [`multiply`]; the rows and the panel exist.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pass<E: Element, const ROWS: usize, const LINES: usize>(product: &Product<'_, E>, panel: usize, row: usize) {
    let n_in = product.weights.n_in();
    let n_pairs = n_in / E::PAIR;
    let step = LINES * LANES * E::PAIR;
    let weights = product.weights.panel(panel);
    assert_eq!(weights.len(), step * n_in.div_ceil(E::PAIR));
    let (whole, last) = weights.split_at(step * n_pairs);
    let x = &product.x[row * n_in..(row + ROWS) * n_in];
    let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
    // SAFETY: the panel has `LINES` lines for each pair (asserted), rows of `x` have `n_in`
    // elements, and the outputs are this thread's.
    unsafe {
        let lines = neighbours(whole);
        let ahead = lines.map(|line| line.wrapping_byte_add(PREFETCH_BYTES));
        multiply_lines(&mut sums, lines, ahead, step, x.as_ptr(), n_in, n_pairs);
        if !last.is_empty() {
            let mut odd = [[E::default(); 2]; ROWS];
            for (pair, row) in odd.iter_mut().zip(x.chunks_exact(n_in)) {
                pair[0] = row[n_in - 1];
            }
            let (lines, odd) = (neighbours(last), odd.as_ptr().cast());
            multiply_lines(&mut sums, lines, lines, step, odd, 2, 1);
        }
        write(product, panel, row, sums);
    }
}

/// Addresses of the first lines of a panel.
fn neighbours<E: Element, const LINES: usize>(panel: &[E]) -> [*const E; LINES] {
    std::array::from_fn(|index| panel.as_ptr().wrapping_add(index * LANES * E::PAIR))
}

/// `sums[row][line] += Σ over pairs of x[row][pair] · line[line][pair]`, in the order of pairs.
///
/// Asks the memory for the lines at `ahead`, which is where the next call will be reading.
///
/// # Safety
/// The instructions are enabled in the function this is inlined into. `n_pairs` lines of 64 bytes,
/// `line_step` elements apart, can be read at each of `lines`, and `n_pairs` pairs at each of
/// `ROWS` rows of `x`, `x_step` elements apart.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant bounds, which unroll into registers")]
pub(super) unsafe fn multiply_lines<E: Element, const ROWS: usize, const LINES: usize>(
    sums: &mut [[__m512; LINES]; ROWS],
    lines: [*const E; LINES],
    ahead: [*const E; LINES],
    line_step: usize,
    x: *const E,
    x_step: usize,
    n_pairs: usize,
) {
    // SAFETY: the caller's promise. Any address may be asked for ahead.
    unsafe {
        for pair in 0..n_pairs {
            let mut weights = [_mm512_setzero_si512(); LINES];
            for line in 0..LINES {
                weights[line] = _mm512_loadu_si512(lines[line].add(pair * line_step).cast());
                _mm_prefetch::<_MM_HINT_T0>(ahead[line].wrapping_add(pair * line_step).cast());
            }
            for row in 0..ROWS {
                let inputs = E::broadcast(x.add(row * x_step + pair * E::PAIR));
                for line in 0..LINES {
                    sums[row][line] = E::multiply_add(sums[row][line], weights[line], inputs);
                }
            }
        }
    }
}

/// Adds the bias and the earlier content where wanted, and stores the outputs that exist.
///
/// # Safety
/// As [`pass`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn write<E: Element, const ROWS: usize, const LINES: usize>(
    product: &Product<'_, E>,
    panel: usize,
    row: usize,
    sums: [[__m512; LINES]; ROWS],
) {
    let n_out = product.weights.n_out();
    let bias = product.weights.panel_bias(panel);
    for (row, sums) in (row..).zip(sums) {
        for (index, mut sum) in sums.into_iter().enumerate() {
            let column = panel * PANEL + index * LANES;
            let mask = first_lanes(n_out - column);
            // SAFETY: the mask names only columns of `y`, which are this thread's; the bias has
            // sixteen elements per line.
            unsafe {
                if let Some(bias) = bias {
                    sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias[index * LANES..].as_ptr()));
                }
                let out = product.y.pointer().add(row * n_out + column);
                if product.output == Output::Accumulate {
                    sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), sum);
                }
                _mm512_mask_storeu_ps(out, mask, sum);
            }
        }
    }
}

//! Few rows times packed weights: the loop that decides the speed of everything.
#![allow(unsafe_code)]

use std::{arch::x86_64::*, ops::Range};

use super::vector::first_lanes;
use crate::{
    Output, PackedLinear, Weight,
    disjoint::Disjoint,
    isa::Isa,
    packed::{LANES, PANEL},
    split::balanced,
};

/// Rows of one pass. With the four lines of a panel that is 24 sums, which leaves registers for four
/// lines of weights and an input.
const MAX_ROWS: usize = 6;

/// How far ahead of its use a line of weights is asked for: what a core reads while memory answers.
pub(super) const PREFETCH_BYTES: usize = 3072;

/// `y (+)= W x + b`, its operands with lengths already checked.
pub(crate) struct Product<'a, W: Weight> {
    pub(crate) weights: &'a PackedLinear<W>,
    pub(crate) x: &'a [W::Operand],
    pub(crate) y: &'a Disjoint<'a, f32>,
    pub(crate) n_rows: usize,
    pub(crate) output: Output,
}

/// The inner loop for a form of weights. It also keeps [`Weight`] closed.
pub trait Multiply: Copy + 'static {
    /// What rows of inputs consist of when they enter the loop.
    type Operand: Clone + Send + Sync;

    /// The products of `ROWS` rows `x` with a panel of `LINES` lines, without scales of the weights. `ONCE` says that no
    /// other rows will read the panel in this product.
    ///
    /// # Safety
    /// Inlined into a function that enables AVX-512 F, BW, BF16 and VNNI.
    unsafe fn multiply_panel<const ROWS: usize, const LINES: usize, const ONCE: bool>(
        panel: &[Self],
        n_in: usize,
        x: &[Self::Operand],
    ) -> [[__m512; LINES]; ROWS];
}

/// The outputs of `panels`, for all rows.
///
/// # Safety
/// `x` is `[n_rows, row_len(n_in)]`, `y` is `[n_rows, n_out]`, and no other thread touches the
/// columns of `panels` in `y`.
pub(crate) unsafe fn multiply<W: Weight>(_isa: Isa, product: &Product<'_, W>, panels: Range<usize>) {
    // SAFETY: an `Isa` exists only where the instructions do; the rest is the caller's promise.
    unsafe {
        match product.n_rows <= MAX_ROWS {
            true => multiply_panels::<W, true>(product, panels),
            false => multiply_panels::<W, false>(product, panels),
        }
    }
}

/// # Safety
/// As [`multiply`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx512vnni")]
unsafe fn multiply_panels<W: Weight, const ONCE: bool>(product: &Product<'_, W>, panels: Range<usize>) {
    for panel in panels {
        let n_outputs = product.weights.n_out() - panel * PANEL;
        for rows in balanced(product.n_rows, MAX_ROWS) {
            // SAFETY: the caller's promise, for some of the panels and rows.
            unsafe {
                match n_outputs.div_ceil(LANES) {
                    1 => pass_rows::<W, 1, ONCE>(product, panel, rows),
                    2 => pass_rows::<W, 2, ONCE>(product, panel, rows),
                    3 => pass_rows::<W, 3, ONCE>(product, panel, rows),
                    _ => pass_rows::<W, 4, ONCE>(product, panel, rows),
                }
            }
        }
    }
}

/// # Safety
/// As [`pass`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx512vnni")]
unsafe fn pass_rows<W: Weight, const LINES: usize, const ONCE: bool>(
    product: &Product<'_, W>,
    panel: usize,
    rows: Range<usize>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows.len() {
            1 => pass::<W, 1, LINES, ONCE>(product, panel, rows.start),
            2 => pass::<W, 2, LINES, ONCE>(product, panel, rows.start),
            3 => pass::<W, 3, LINES, ONCE>(product, panel, rows.start),
            4 => pass::<W, 4, LINES, ONCE>(product, panel, rows.start),
            5 => pass::<W, 5, LINES, ONCE>(product, panel, rows.start),
            _ => pass::<W, 6, LINES, ONCE>(product, panel, rows.start),
        }
    }
}

/// `ROWS` rows from `row` on times a panel of `LINES` lines.
///
/// # Safety
/// As [`multiply`]; the rows and the panel exist.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx512vnni")]
unsafe fn pass<W: Weight, const ROWS: usize, const LINES: usize, const ONCE: bool>(
    product: &Product<'_, W>,
    panel: usize,
    row: usize,
) {
    let n_in = product.weights.n_in();
    let row_len = W::row_len(n_in);
    let x = &product.x[row * row_len..(row + ROWS) * row_len];
    // SAFETY: the instructions are enabled here, and the outputs are this thread's.
    unsafe {
        let sums = W::multiply_panel::<ROWS, LINES, ONCE>(product.weights.panel(panel), n_in, x);
        write(product, panel, row, sums);
    }
}

/// Addresses of the first lines of a panel.
pub(super) fn neighbours<W: Weight, const LINES: usize>(panel: &[W]) -> [*const W; LINES] {
    std::array::from_fn(|index| panel.as_ptr().wrapping_add(index * LANES * W::RUN))
}

/// Scales, adds the bias and the earlier content where wanted, and stores the outputs that exist.
///
/// # Safety
/// As [`pass`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16,avx512vnni")]
unsafe fn write<W: Weight, const ROWS: usize, const LINES: usize>(
    product: &Product<'_, W>,
    panel: usize,
    row: usize,
    sums: [[__m512; LINES]; ROWS],
) {
    let n_out = product.weights.n_out();
    let (scales, bias) = (product.weights.panel_scales(panel), product.weights.panel_bias(panel));
    for (row, sums) in (row..).zip(sums) {
        for (index, mut sum) in sums.into_iter().enumerate() {
            let column = panel * PANEL + index * LANES;
            let mask = first_lanes(n_out - column);
            // SAFETY: the mask names only columns of `y`, which are this thread's; scales and
            // biases are sixteen per line.
            unsafe {
                if let Some(scales) = scales {
                    sum = _mm512_mul_ps(sum, _mm512_loadu_ps(scales[index * LANES..].as_ptr()));
                }
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

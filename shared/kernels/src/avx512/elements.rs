//! Products with weights of the element types.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::multiply::{Multiply, PREFETCH_BYTES, neighbours};
use crate::{Element, packed::LANES};

impl<E: Element> Multiply for E {
    type Operand = E;

    #[inline(always)]
    unsafe fn multiply_panel<const ROWS: usize, const LINES: usize, const ONCE: bool>(
        panel: &[E],
        n_in: usize,
        x: &[E],
    ) -> [[__m512; LINES]; ROWS] {
        let n_pairs = n_in / E::PAIR;
        let step = LINES * LANES * E::PAIR;
        assert!(panel.len() == step * n_in.div_ceil(E::PAIR) && x.len() == ROWS * n_in);
        let (whole, last) = panel.split_at(step * n_pairs);
        // SAFETY: the instructions exist (caller). The panel has `LINES` lines for each pair and
        // rows of `x` have `n_in` elements (asserted).
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
            let lines = neighbours(whole);
            let ahead = lines.map(|line| line.wrapping_byte_add(PREFETCH_BYTES));
            multiply_lines::<_, ROWS, LINES, ONCE>(&mut sums, lines, ahead, step, x.as_ptr(), n_in, n_pairs);
            if !last.is_empty() {
                let mut odd = [[E::default(); 2]; ROWS];
                for (pair, row) in odd.iter_mut().zip(x.chunks_exact(n_in)) {
                    pair[0] = row[n_in - 1];
                }
                let (lines, odd) = (neighbours(last), odd.as_ptr().cast());
                multiply_lines::<_, ROWS, LINES, ONCE>(&mut sums, lines, lines, step, odd, 2, 1);
            }
            sums
        }
    }
}

/// `sums[row][line] += Σ over pairs of x[row][pair] · line[line][pair]`, in the order of pairs.
///
/// Asks the memory for the lines at `ahead`, which is where the next call will be reading. What is read `ONCE` a step
/// passes by the caches: the weights of a large model would not be found there by the next step, but would drive out what
/// others come back to, a small draft above all.
///
/// # Safety
/// The instructions are enabled in the function this is inlined into. `n_pairs` lines of 64 bytes,
/// `line_step` elements apart, can be read at each of `lines`, and `n_pairs` pairs at each of
/// `ROWS` rows of `x`, `x_step` elements apart.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "constant bounds, which unroll into registers")]
pub(super) unsafe fn multiply_lines<E: Element, const ROWS: usize, const LINES: usize, const ONCE: bool>(
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
                let ahead = ahead[line].wrapping_add(pair * line_step).cast();
                match ONCE {
                    true => _mm_prefetch::<_MM_HINT_NTA>(ahead),
                    false => _mm_prefetch::<_MM_HINT_T0>(ahead),
                }
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

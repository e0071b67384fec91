//! Products with 8-bit integers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::bf16;

use super::{
    multiply::{Multiply, PREFETCH_BYTES, neighbours},
    vector::first_lanes,
};
use crate::{
    Int8, Weight,
    int8::{GROUP, Group, inverse, scale},
    isa::Isa,
    packed::LANES,
};

/// Registers of inputs in a group.
const REGISTERS: usize = GROUP / LANES;

/// Bytes that are multiplied and added up in one lane at once.
const RUN: usize = Int8::RUN;

/// Rounds a row in groups with a scale each.
pub(crate) fn round_to_int8(_isa: Isa, x: &[bf16], out: &mut [Group]) {
    assert_eq!(out.len(), x.len().div_ceil(GROUP));
    for (x, out) in x.chunks(GROUP).zip(out) {
        // SAFETY: an `Isa` exists only where the instructions do; the chunks are no longer than a group.
        unsafe { round_group(x, out) }
    }
}

/// # Safety
/// `x` has at most [`GROUP`] elements.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn round_group(x: &[bf16], out: &mut Group) {
    // SAFETY: the mask names only elements of `x`, and others are not accessed.
    let x = unsafe { load(x) };
    let magnitude = _mm512_set1_epi32(0x7FFF_FFFF);
    // As integers magnitudes are in the same order, with NaN above all, so that it stays.
    let magnitudes = x.map(|x| _mm512_and_si512(_mm512_castps_si512(x), magnitude));
    let greatest = magnitudes.into_iter().fold(_mm512_setzero_si512(), |a, b| _mm512_max_epi32(a, b));
    out.scale = scale(f32::from_bits(_mm512_reduce_max_epi32(greatest).cast_unsigned()));
    let inverse = _mm512_set1_ps(inverse(out.scale));
    let mut sum = _mm512_setzero_si512();
    for (x, values) in x.into_iter().zip(out.values.as_chunks_mut::<LANES>().0) {
        // To the nearest, ties to even.
        let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse));
        let bytes = _mm512_cvtsepi32_epi8(rounded);
        sum = _mm512_add_epi32(sum, _mm512_cvtepi8_epi32(bytes));
        // SAFETY: sixteen bytes can be written.
        unsafe { _mm_storeu_si128(values.as_mut_ptr().cast(), bytes) };
    }
    out.start = Group::start(_mm512_reduce_add_epi32(sum));
}

/// All of `x` widened, then zeros.
///
/// # Safety
/// As [`round_group`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn load(x: &[bf16]) -> [__m512; REGISTERS] {
    let mut out = [_mm512_setzero_ps(); REGISTERS];
    for (index, out) in out.chunks_mut(2).enumerate() {
        let first = index * 2 * LANES;
        let rest = x.len().saturating_sub(first);
        let mask = u32::from(first_lanes(rest)) | u32::from(first_lanes(rest.saturating_sub(LANES))) << LANES;
        // SAFETY: the mask names only elements of `x`, and others are not accessed.
        let both = unsafe { _mm512_maskz_loadu_epi16(mask, x.as_ptr().wrapping_add(first).cast()) };
        let halves = [_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both)];
        for (out, half) in out.iter_mut().zip(halves) {
            // A bf16 is the upper half of an f32.
            *out = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
        }
    }
    out
}

impl Multiply for Int8 {
    type Operand = Group;

    /// Integers within a group, f32 from group to group. Such models are small, so that the next step finds their weights
    /// in the caches: they are never passed by, `ONCE` or not.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "constant bounds, which unroll into registers")]
    unsafe fn multiply_panel<const ROWS: usize, const LINES: usize, const ONCE: bool>(
        panel: &[Self],
        n_in: usize,
        x: &[Group],
    ) -> [[__m512; LINES]; ROWS] {
        let step = LINES * LANES * RUN;
        let n_runs = n_in.div_ceil(RUN);
        let n_groups = Self::row_len(n_in);
        assert!(panel.len() == n_runs * step && x.len() == ROWS * n_groups);
        // SAFETY: the instructions exist (caller). The panel has `LINES` lines for each run of
        // inputs and `x` has `ROWS` rows (asserted). Any address may be asked for ahead.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); LINES]; ROWS];
            for group in 0..n_groups {
                let first_run = group * (GROUP / RUN);
                let lines = neighbours::<Self, LINES>(&panel[first_run * step..]);
                let mut dots = [[_mm512_setzero_si512(); LINES]; ROWS];
                for row in 0..ROWS {
                    dots[row] = [_mm512_set1_epi32(x[row * n_groups + group].start); LINES];
                }
                for run in 0..(GROUP / RUN).min(n_runs - first_run) {
                    let mut weights = [_mm512_setzero_si512(); LINES];
                    for line in 0..LINES {
                        let address = lines[line].add(run * step);
                        weights[line] = _mm512_loadu_si512(address.cast());
                        _mm_prefetch::<_MM_HINT_T0>(address.wrapping_byte_add(PREFETCH_BYTES).cast());
                    }
                    for row in 0..ROWS {
                        let values = x.as_ptr().add(row * n_groups + group).cast::<i32>();
                        let inputs = _mm512_set1_epi32(values.add(run).read());
                        for line in 0..LINES {
                            dots[row][line] = _mm512_dpbusd_epi32(dots[row][line], weights[line], inputs);
                        }
                    }
                }
                for row in 0..ROWS {
                    let scale = _mm512_set1_ps(x[row * n_groups + group].scale);
                    for line in 0..LINES {
                        sums[row][line] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[row][line]), scale, sums[row][line]);
                    }
                }
            }
            sums
        }
    }
}

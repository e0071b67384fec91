//! Small pieces that several loops share.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::packed::LANES;

/// The lanes below `n`; all of them from 16 up.
#[inline(always)]
pub(super) fn first_lanes(n: usize) -> __mmask16 {
    if n >= LANES { __mmask16::MAX } else { (1 << n) - 1 }
}

/// `slice` from `start`, 16 lanes of it, zeros beyond its end.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) fn load(slice: &[f32], start: usize) -> __m512 {
    let rest = &slice[start..];
    // SAFETY: the mask names only lanes within the slice, and others are not accessed.
    unsafe { _mm512_maskz_loadu_ps(first_lanes(rest.len()), rest.as_ptr()) }
}

/// e to the power of each lane, to about an ulp; exactly 1 for 0, 0 far below, infinity far above,
/// NaN for NaN.
///
/// The argument is split into a multiple of ln 2 and a rest within half of it, for which a
/// polynomial does (Cody and Waite's reduction; coefficients of the Cephes library's `expf`).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) fn exp(x: __m512) -> __m512 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Beyond these the result is 0 or infinity anyway. In this operand order a NaN stays.
    let x = _mm512_max_ps(_mm512_set1_ps(-120.0), x);
    let x = _mm512_min_ps(_mm512_set1_ps(120.0), x);
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm512_mul_ps(
        x,
        _mm512_set1_ps(std::f32::consts::LOG2_E),
    ));
    let rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_HIGH), x);
    let rest = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2_LOW), rest);
    let mut sum = _mm512_set1_ps(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        sum = _mm512_fmadd_ps(sum, rest, _mm512_set1_ps(coefficient));
    }
    let square = _mm512_mul_ps(rest, rest);
    let power = _mm512_add_ps(_mm512_fmadd_ps(sum, square, rest), _mm512_set1_ps(1.0));
    _mm512_scalef_ps(power, n)
}

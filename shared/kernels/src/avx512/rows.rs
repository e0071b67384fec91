//! Loops over one row, element by element.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::vector::{exp, first_lanes, load};
use crate::{Element, isa::Isa, packed::LANES};

/// `out = x / sqrt(mean(x²) + eps) * weight`, over three slices of one length.
pub(crate) fn rms_norm<E: Element>(_isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [E]) {
    assert!(x.len() == weight.len() && x.len() == out.len());
    // SAFETY: an `Isa` exists only where the instructions do.
    unsafe { rms_norm_row(x, weight, eps, out) }
}

/// `out = gate * sigmoid(gate) * up`, over three slices of one length.
pub(crate) fn swiglu<E: Element>(_isa: Isa, gate: &[f32], up: &[f32], out: &mut [E]) {
    assert!(gate.len() == up.len() && gate.len() == out.len());
    // SAFETY: an `Isa` exists only where the instructions do.
    unsafe { swiglu_row(gate, up, out) }
}

/// Rounds `x` to the element type, over two slices of one length.
pub(crate) fn round<E: Element>(_isa: Isa, x: &[f32], out: &mut [E]) {
    assert_eq!(x.len(), out.len());
    // SAFETY: an `Isa` exists only where the instructions do.
    unsafe { round_row(x, out) }
}

/// Reads all of `data` at full width, and gives a number that depends on it.
pub(crate) fn read(_isa: Isa, data: &[f32]) -> f32 {
    // SAFETY: an `Isa` exists only where the instructions do.
    unsafe { read_all(data) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn rms_norm_row<E: Element>(x: &[f32], weight: &[f32], eps: f32, out: &mut [E]) {
    let mut squares = _mm512_setzero_ps();
    for start in (0..x.len()).step_by(LANES) {
        let x = load(x, start);
        squares = _mm512_fmadd_ps(x, x, squares);
    }
    let mean = _mm512_reduce_add_ps(squares) / x.len() as f32;
    let scale = _mm512_set1_ps(1.0 / (mean + eps).sqrt());
    for start in (0..x.len()).step_by(LANES) {
        let scaled = _mm512_mul_ps(load(x, start), scale);
        store(out, start, _mm512_mul_ps(scaled, load(weight, start)));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn swiglu_row<E: Element>(gate: &[f32], up: &[f32], out: &mut [E]) {
    let one = _mm512_set1_ps(1.0);
    for start in (0..gate.len()).step_by(LANES) {
        let gate = load(gate, start);
        let inverse = exp(_mm512_sub_ps(_mm512_setzero_ps(), gate));
        let gated = _mm512_div_ps(gate, _mm512_add_ps(one, inverse));
        store(out, start, _mm512_mul_ps(gated, load(up, start)));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn round_row<E: Element>(x: &[f32], out: &mut [E]) {
    for start in (0..x.len()).step_by(LANES) {
        store(out, start, load(x, start));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn read_all(data: &[f32]) -> f32 {
    let mut sums = [_mm512_setzero_ps(); 8];
    let (groups, rest) = data.as_chunks::<{ 8 * LANES }>();
    for group in groups {
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the group holds eight times sixteen elements.
            *sum = unsafe { _mm512_add_ps(*sum, _mm512_loadu_ps(group.as_ptr().add(index * LANES))) };
        }
    }
    let mut total = rest.iter().sum();
    for sum in sums {
        total += _mm512_reduce_add_ps(sum);
    }
    total
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn store<E: Element>(out: &mut [E], start: usize, values: __m512) {
    let rest = &mut out[start..];
    // SAFETY: the instructions are enabled here; the mask names only elements of the slice.
    unsafe { E::store(rest.as_mut_ptr(), first_lanes(rest.len()), values) };
}

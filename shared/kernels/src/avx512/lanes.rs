//! What differs between the element types: how sixteen lanes multiply, load and round.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use half::bf16;

/// Register operations of an element type. It also keeps [`Element`](crate::Element) closed.
///
/// Every method requires AVX-512 F, BW and BF16, and is inlined into a function that enables them.
pub trait Lanes: Copy + 'static {
    /// Adds to each of 16 sums the products of its pair of weights with the pair of inputs.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn multiply_add(sums: __m512, weights: __m512i, inputs: __m512i) -> __m512;

    /// One pair of inputs, for all lanes.
    ///
    /// # Safety
    /// The processor has the instructions; one pair can be read at `pair`.
    unsafe fn broadcast(pair: *const Self) -> __m512i;

    /// Rounds the lanes to the element type.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn round(values: __m512) -> __m512;

    /// Rounds the lanes and stores those that `mask` names.
    ///
    /// # Safety
    /// The processor has the instructions; the named elements can be written at `out`.
    unsafe fn store(out: *mut Self, mask: __mmask16, values: __m512);
}

impl Lanes for bf16 {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m512, weights: __m512i, inputs: __m512i) -> __m512 {
        // SAFETY: the instruction exists (caller); both types are 64 bytes of bf16 pairs.
        unsafe {
            _mm512_dpbf16_ps(
                sums,
                std::mem::transmute::<__m512i, __m512bh>(weights),
                std::mem::transmute::<__m512i, __m512bh>(inputs),
            )
        }
    }

    #[inline(always)]
    unsafe fn broadcast(pair: *const Self) -> __m512i {
        // SAFETY: two bf16, four bytes, are readable (caller).
        unsafe { _mm512_set1_epi32(pair.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn round(values: __m512) -> __m512 {
        // SAFETY: the instructions exist (caller). A bf16 is the upper half of an f32.
        unsafe {
            let rounded = std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(values));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(rounded)))
        }
    }

    #[inline(always)]
    unsafe fn store(out: *mut Self, mask: __mmask16, values: __m512) {
        // SAFETY: the instructions exist and the named elements are writable (caller). The upper
        // half of a rounded f32 is the bf16.
        unsafe {
            let bits = _mm512_srli_epi32::<16>(_mm512_castps_si512(Self::round(values)));
            _mm512_mask_cvtepi32_storeu_epi16(out.cast(), mask, bits);
        }
    }
}

impl Lanes for f32 {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m512, weights: __m512i, inputs: __m512i) -> __m512 {
        // SAFETY: the instruction exists (caller).
        unsafe { _mm512_fmadd_ps(_mm512_castsi512_ps(weights), _mm512_castsi512_ps(inputs), sums) }
    }

    #[inline(always)]
    unsafe fn broadcast(pair: *const Self) -> __m512i {
        // SAFETY: one f32 is readable (caller).
        unsafe { _mm512_set1_epi32(pair.cast::<i32>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn round(values: __m512) -> __m512 {
        values
    }

    #[inline(always)]
    unsafe fn store(out: *mut Self, mask: __mmask16, values: __m512) {
        // SAFETY: the instruction exists and the named elements are writable (caller).
        unsafe { _mm512_mask_storeu_ps(out, mask, values) };
    }
}

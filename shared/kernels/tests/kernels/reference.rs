//! Numbers to test with, and comparisons.

use specfleet_kernels::Element;

/// Reproducible numbers (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Uniform in [-1, 1).
    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.next() >> 40) as f32 / 8_388_608.0 - 1.0).collect()
    }

    pub(crate) fn elements<E: Element>(&mut self, n: usize) -> Vec<E> {
        self.floats(n).into_iter().map(E::from_f32).collect()
    }
}

pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub(crate) fn element_bits<E: Element>(values: &[E]) -> Vec<u32> {
    values.iter().map(|value| value.to_f32().to_bits()).collect()
}

/// Relative rounding error of an element type.
pub(crate) fn epsilon<E: Element>() -> f64 {
    if size_of::<E>() == 2 { 2f64.powi(-8) } else { 2f64.powi(-23) }
}

#[track_caller]
pub(crate) fn assert_near(got: f64, wanted: f64, tolerance: f64, what: &str) {
    assert!((got - wanted).abs() <= tolerance, "{what}: {got}, wanted {wanted} within {tolerance:e}");
}

/// `x / sqrt(mean(x²) + eps) * weight`
pub(crate) fn rms_norm(x: &[f64], weight: &[f32], eps: f64) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + eps).sqrt();
    x.iter().zip(weight).map(|(x, weight)| x * scale * f64::from(*weight)).collect()
}

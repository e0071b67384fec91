//! Which instructions the kernels need, and the proof that this processor has them.

/// Whether this processor has what the kernels are written in: AVX-512 F, BW, BF16 and VNNI.
#[must_use]
pub fn supported() -> bool {
    Isa::detect().is_some()
}

/// Proof that the instructions exist here: a value is only made by [`Isa::detect`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Isa(());

impl Isa {
    pub(crate) fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16")
            && is_x86_feature_detected!("avx512vnni");
        #[cfg(not(target_arch = "x86_64"))]
        let found = false;
        found.then_some(Self(()))
    }
}

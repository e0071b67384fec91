//! Rows of logits as language models have them: some positions are nearly certain, some wide open; the target agrees with
//! the draft, but not quite; and the whole row stands somewhere between 10 and 20, where bf16 has few values.

use std::ops::Range;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};

pub(crate) const N_VOCAB: usize = 256;

const N_PAIRS: u64 = 1024;

/// Rows to choose from.
pub(crate) struct Rows {
    pairs: Vec<Pair>,
}

struct Pair {
    draft: Vec<f32>,
    target: Vec<f32>,
}

impl Rows {
    /// From nearly certain to wide open.
    pub(crate) fn new() -> Self {
        Self::falling(0.8..3.5)
    }

    /// Where many tokens are nearly as likely as the likeliest.
    pub(crate) fn wide_open() -> Self {
        Self::falling(0.2..0.8)
    }

    fn falling(exponents: Range<f32>) -> Self {
        let mut random = ChaCha12Rng::seed_from_u64(1);
        Self { pairs: (0..N_PAIRS).map(|_| Pair::new(exponents.clone(), &mut random)).collect() }
    }

    /// The draft's row in a context, which a hash stands for.
    pub(crate) fn draft(&self, context: u64) -> Vec<f32> {
        shifted(&self.pairs[(context % N_PAIRS) as usize].draft, context)
    }

    /// The target's row in the same context.
    pub(crate) fn target(&self, context: u64) -> Vec<f32> {
        shifted(&self.pairs[(context % N_PAIRS) as usize].target, context)
    }
}

impl Pair {
    /// The r-th likeliest id falls off as a power of r, as words do. Which id that is, is random.
    fn new(exponents: Range<f32>, random: &mut ChaCha12Rng) -> Self {
        let exponent = random.random_range(exponents);
        let mut places: Vec<usize> = (0..N_VOCAB).collect();
        for index in (1..N_VOCAB).rev() {
            places.swap(index, random.random_range(0..=index));
        }
        let mut draft = vec![0.0; N_VOCAB];
        for (rank, place) in (1_u16..).zip(places) {
            draft[place] = -exponent * f32::from(rank).ln() + random.random_range(-0.5..0.5_f32);
        }
        let target = draft.iter().map(|logit| logit + random.random_range(-1.2..1.2_f32)).collect();
        Self { draft, target }
    }
}

/// Softmax does not see where a row stands, but rounding does.
fn shifted(row: &[f32], context: u64) -> Vec<f32> {
    let shift = 10.0 + 10.0 * (context >> 40) as f32 / (1_u32 << 24) as f32;
    row.iter().map(|logit| logit + shift).collect()
}

//! Noise that target and draft share without talking: a function of (seed, position, id).
//!
//! To draw from weights w with shared noise, give each id an exponential waiting time E(id) and take the first arrival,
//! the id with the least E(id) / w(id). It is id with probability w(id) / total, because the least of exponential times
//! with rates w is attained in proportion to the rates. This is the Gumbel-max trick (Maddison, Tarlow, Minka, "A*
//! Sampling", 2014) without the two logarithms. Two sides with similar weights and the same times mostly agree, and
//! whichever ids one side leaves out, the times of the others stay the same.
//!
//! Fifty thousand ids a token call for a generator that is counted, not stepped, and that vector units like: Threefry
//! 2x64 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//!
//! **Precision.** Times come from uniforms on a grid of 2^-52. An id of probability p wins with the right probability up
//! to about 2^-53 in absolute terms; with 32-bit uniforms the tokens in the tail of a large vocabulary would be off by
//! more than their own probability.

use multiversion::multiversion;

use super::DraftSeed;
use crate::TokenId;

const LANES: usize = 16;

/// Waiting times of ids at positions.
#[derive(Clone)]
pub struct SharedNoise {
    key: [u64; 2],
}

impl SharedNoise {
    /// The noise of a request. The verifier derives the same [`DraftSeed`] as it gives to the draft.
    pub fn new(seed: &DraftSeed) -> Self {
        let key = blake3::derive_key("specfleet v1 shared noise", &seed.0);
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&key[index * 8..index * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        Self { key: [word(0), word(1)] }
    }

    /// The exponential waiting time of an id.
    pub fn waiting_time(&self, position: u64, token: TokenId) -> f64 {
        let counters = [u64::from(token); LANES];
        waiting_time(uniform(threefry(self.key, counters, position)[0]))
    }

    /// Index of the first arrival: the entry with the least waiting time divided by its weight. Entry i stands for id i,
    /// or for `ids[i]`. `None` if no weight is positive.
    pub(crate) fn first_arrival(&self, position: u64, weights: &[f32], ids: Option<&[TokenId]>) -> Option<usize> {
        first_arrival(self.key, position, weights, ids)
    }
}

/// The number of entries that need a logarithm is about the logarithm of their number: -ln(1 - v) >= v, so an entry
/// whose uniform alone is too late for its weight is out, and one vector comparison tells that of sixteen.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512bw+avx512dq", "x86_64+avx2", "aarch64+neon"))]
fn first_arrival(key: [u64; 2], position: u64, weights: &[f32], ids: Option<&[TokenId]>) -> Option<usize> {
    let mut first = None;
    let mut earliest = f64::INFINITY;
    for (chunk_index, chunk) in weights.chunks(LANES).enumerate() {
        let start = chunk_index * LANES;
        let mut rates = [0.0_f64; LANES];
        for (rate, weight) in rates.iter_mut().zip(chunk) {
            *rate = f64::from(*weight);
        }
        if rates.iter().fold(0.0, |sum, rate| sum + rate) == 0.0 {
            continue;
        }
        let mut counters = [0_u64; LANES];
        match ids {
            None => (0..LANES).for_each(|lane| counters[lane] = (start + lane) as u64),
            Some(ids) => (0..chunk.len()).for_each(|lane| counters[lane] = u64::from(ids[start + lane])),
        }
        let bits = threefry(key, counters, position);
        let mut uniforms = [0.0; LANES];
        let mut may_win = false;
        for lane in 0..LANES {
            uniforms[lane] = uniform(bits[lane]);
            may_win |= uniforms[lane] < earliest * rates[lane];
        }
        if may_win {
            for lane in (0..chunk.len()).filter(|lane| rates[*lane] > 0.0) {
                let arrival = waiting_time(uniforms[lane]) / rates[lane];
                if arrival < earliest {
                    (first, earliest) = (Some(start + lane), arrival);
                }
            }
        }
    }
    first
}

/// The first output word of Threefry 2x64-20 for the counters (counter, position), sixteen at a time.
#[inline(always)]
fn threefry(key: [u64; 2], counters: [u64; LANES], position: u64) -> [u64; LANES] {
    const PARITY: u64 = 0x1BD1_1BDA_A9FC_1A22;
    const ROTATIONS: [u32; 8] = [16, 42, 12, 31, 16, 32, 24, 21];
    const ROUNDS: usize = 20;

    let schedule = [key[0], key[1], PARITY ^ key[0] ^ key[1]];
    let mut left = counters.map(|counter| counter.wrapping_add(schedule[0]));
    let mut right = [position.wrapping_add(schedule[1]); LANES];
    for round in 0..ROUNDS {
        for lane in 0..LANES {
            left[lane] = left[lane].wrapping_add(right[lane]);
            right[lane] = right[lane].rotate_left(ROTATIONS[round % 8]) ^ left[lane];
        }
        if round % 4 == 3 {
            let injection = round / 4 + 1;
            for lane in 0..LANES {
                left[lane] = left[lane].wrapping_add(schedule[injection % 3]);
                right[lane] = right[lane].wrapping_add(schedule[(injection + 1) % 3]).wrapping_add(injection as u64);
            }
        }
    }
    left
}

/// The middle of one of 2^52 equal parts of (0, 1): never 0, never 1, and exact.
#[inline(always)]
fn uniform(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) * f64::EPSILON
}

fn waiting_time(uniform: f64) -> f64 {
    -(-uniform).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers from the distribution of Random123 (`kat_vectors`, threefry2x64 20).
    #[test]
    fn threefry_gives_the_published_answers() {
        let cases = [
            ([0, 0], 0, 0, 0xc2b6_e3a8_c2c6_9865),
            ([u64::MAX, u64::MAX], u64::MAX, u64::MAX, 0xe02c_b7c4_d95d_277a),
            (
                [0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89],
                0x243f_6a88_85a3_08d3,
                0x1319_8a2e_0370_7344,
                0x263c_7d30_bb0f_0af1,
            ),
        ];
        for (key, counter, position, expected) in cases {
            assert_eq!(threefry(key, [counter; LANES], position), [expected; LANES]);
        }
    }

    #[test]
    fn waiting_times_keep_their_law_near_zero() {
        let smallest = waiting_time(uniform(0));
        assert!((smallest / 2.0_f64.powi(-53) - 1.0).abs() < 1e-12, "{smallest}");
        assert!(waiting_time(uniform(u64::MAX)).is_finite());
        assert!((waiting_time(0.5) - std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn the_first_arrival_is_the_one_found_by_comparing_all() {
        let noise = SharedNoise::new(&DraftSeed([7; 32]));
        let ids: Vec<TokenId> = (0..1000).map(|index| index * 37 + 5).collect();
        let weights: Vec<f32> = (0..1000_u32).map(|index| ((index * 7919) % 101) as f32 / 100.0).collect();
        for position in 0..50 {
            let naive = |token: &dyn Fn(usize) -> TokenId| {
                let arrival = |index: &usize| noise.waiting_time(position, token(*index)) / f64::from(weights[*index]);
                (0..weights.len())
                    .filter(|index| weights[*index] > 0.0)
                    .min_by(|left, right| arrival(left).total_cmp(&arrival(right)))
            };
            assert_eq!(noise.first_arrival(position, &weights, None), naive(&|index| index as TokenId));
            assert_eq!(noise.first_arrival(position, &weights, Some(&ids)), naive(&|index| ids[index]));
        }
    }

    #[test]
    fn no_weight_no_arrival() {
        let noise = SharedNoise::new(&DraftSeed([7; 32]));
        assert_eq!(noise.first_arrival(0, &[0.0; 40], None), None);
    }
}

//! Random numbers that belong to a request, a position and a purpose.
//!
//! The draft's draw, the accept test and the draw after a rejection must be independent: a number used for two of them
//! biases the output and no log shows it. And they must not depend on what else runs, on batching, or on how often a
//! position was proposed before. So there is no generator with a state. Each number is a function of (seed, position,
//! purpose): one block of a ChaCha key stream under a key derived from the request's seed.
//!
//! Keys are derived one-way (BLAKE3 in its key derivation mode). A draft gets a [`DraftSeed`]; from it nobody can
//! compute the numbers of the accept tests, so a draft cannot choose tokens that it knows will pass.
//!
//! A *position* is the index of a token in its sequence, prompt included: the first token after a prompt of ten is at
//! position 10.

mod noise;

use std::fmt;

use rand::rngs::ChaCha12Rng;
use rand::{Rng, SeedableRng};

pub use noise::SharedNoise;

/// 32-bit words of one ChaCha block. Each position has a block of its own.
const WORDS_PER_BLOCK: u128 = 16;

/// The seed of one request.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestSeed([u8; 32]);

impl RequestSeed {
    /// The seed that a client chose.
    pub fn from_u64(seed: u64) -> Self {
        Self(blake3::derive_key("specfleet v1 request seed from a client's number", &seed.to_le_bytes()))
    }

    /// A seed nobody knows, for requests that bring none. The only place in this crate that is not a function of its
    /// arguments.
    pub fn from_entropy() -> Self {
        Self(rand::random())
    }

    /// The seed of one of several answers to the same request.
    pub fn child(&self, index: u32) -> Self {
        let mut material = self.0.to_vec();
        material.extend_from_slice(&index.to_le_bytes());
        Self(blake3::derive_key("specfleet v1 request seed of one answer", &material))
    }

    /// What the draft is given.
    pub fn draft_seed(&self) -> DraftSeed {
        DraftSeed(blake3::derive_key("specfleet v1 draft seed", &self.0))
    }
}

/// Seeds stay out of logs.
impl fmt::Debug for RequestSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestSeed(..)")
    }
}

/// What a draft needs to draw its tokens and the shared noise.
#[derive(Clone, PartialEq, Eq)]
pub struct DraftSeed(pub [u8; 32]);

/// Seeds stay out of logs.
impl fmt::Debug for DraftSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DraftSeed(..)")
    }
}

/// What the verifier uses a number for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The accept test of the draft token at a position.
    Accept,
    /// The token that the target itself chooses at a position: corrected, bonus or plain.
    Choose,
    /// Where within its probability a draft token is taken to fall: [`crate::honesty`]. Decides about nothing.
    Rank,
}

/// The verifier's numbers.
#[derive(Clone)]
pub struct VerifyRandom {
    key: [u8; 32],
}

impl VerifyRandom {
    /// The numbers of a request.
    pub fn new(seed: &RequestSeed) -> Self {
        Self { key: blake3::derive_key("specfleet v1 verifier numbers", &seed.0) }
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn uniform(&self, position: u64, purpose: Purpose) -> f64 {
        let stream_id = match purpose {
            Purpose::Accept => 0,
            Purpose::Choose => 1,
            Purpose::Rank => 2,
        };
        uniform(bits(self.key, stream_id, position))
    }
}

/// The draft's numbers.
#[derive(Clone)]
pub struct DraftRandom {
    key: [u8; 32],
}

impl DraftRandom {
    /// The numbers of a request.
    pub fn new(seed: &DraftSeed) -> Self {
        Self { key: blake3::derive_key("specfleet v1 draft numbers", &seed.0) }
    }

    /// 64 uniform bits.
    pub fn bits(&self, position: u64) -> u64 {
        bits(self.key, 0, position)
    }

    /// A number in [0, 1), a multiple of 2^-53, from the same bits.
    pub fn uniform(&self, position: u64) -> f64 {
        uniform(self.bits(position))
    }
}

/// Everything random about verifying a request.
#[derive(Clone)]
pub struct VerifyRandomness {
    /// For the standard rule.
    pub numbers: VerifyRandom,
    /// For the draft-invariant rule.
    pub noise: SharedNoise,
}

impl VerifyRandomness {
    /// The randomness of a request.
    pub fn new(seed: &RequestSeed) -> Self {
        Self { numbers: VerifyRandom::new(seed), noise: SharedNoise::new(&seed.draft_seed()) }
    }
}

/// Everything random about drafting for a request.
#[derive(Clone)]
pub struct DraftRandomness {
    /// For the standard rule.
    pub numbers: DraftRandom,
    /// For the draft-invariant rule.
    pub noise: SharedNoise,
}

impl DraftRandomness {
    /// The randomness of a request.
    pub fn new(seed: &DraftSeed) -> Self {
        Self { numbers: DraftRandom::new(seed), noise: SharedNoise::new(seed) }
    }
}

fn bits(key: [u8; 32], stream_id: u64, position: u64) -> u64 {
    let mut stream = ChaCha12Rng::from_seed(key);
    stream.set_stream(stream_id);
    stream.set_word_pos(u128::from(position) * WORDS_PER_BLOCK);
    stream.next_u64()
}

fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 * (f64::EPSILON / 2.0)
}

#[cfg(test)]
mod tests;

//! Ways to draw a token and to say what it was drawn from.

use std::num::NonZeroU32;

use specfleet_speculation::TokenId;
use specfleet_speculation::distribution::{DraftDistribution, SparseWeights};
use specfleet_speculation::propose::{Drafted, Rule, Support, draft_token};
use specfleet_speculation::random::DraftRandomness;
use specfleet_speculation::transform::{SamplingParams, Shaped, TokenCounts, Transforms, Vocabulary};

use crate::rows::N_VOCAB;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Habit {
    /// Draws from what it reports.
    Honest,
    /// The same, from all ids in f32.
    HonestDense,
    /// Divides by the temperature and rounds to bf16 before the softmax that it draws from; reports f32.
    RoundsLogits,
    /// Adds Gumbel noise to the logits in bf16 and takes the greatest, the lowest id where several are; reports f32.
    AddsNoiseInHalfPrecision,
    /// Draws from all ids; reports the 32 likeliest and the token.
    TruncatesAfterDraw,
    /// Ends the proposal instead of proposing a token of a probability below 0.02.
    DropsUnlikely,
    /// Draws at 0.7 times the temperature it reports.
    Cooler,
    /// Takes the likeliest token; reports the distribution.
    Greedy,
    /// Draws all tokens of a proposal with one number.
    OneNumber,
}

impl Habit {
    /// The draft token at `position` of a proposal that begins at `base`; `None` ends the proposal.
    pub(crate) fn draft(
        self,
        row: &[f32],
        temperature: f32,
        randomness: &DraftRandomness,
        base: u64,
        position: u64,
    ) -> Option<Drafted> {
        let draw =
            |shaped: &Shaped, support, position| draft_token(shaped, support, Rule::Standard, randomness, position);
        let reported = draw(&shape(row, temperature), Support::default(), position);
        let token_of = |shaped: &Shaped| draw(shaped, Support::default(), position).token;
        let token = match self {
            Self::Honest => reported.token,
            Self::HonestDense => return Some(draw(&shape(row, temperature), Support::Full, position)),
            Self::RoundsLogits => token_of(&shape(&in_bf16(row, temperature), 1.0)),
            Self::AddsNoiseInHalfPrecision => noisy_maximum(&in_bf16(row, temperature), randomness, position),
            Self::TruncatesAfterDraw => draw(&shape(row, temperature), Support::Full, position).token,
            Self::DropsUnlikely if reported.distribution.probability(reported.token) < 0.02 => return None,
            Self::DropsUnlikely => reported.token,
            Self::Cooler => token_of(&shape(row, 0.7 * temperature)),
            Self::Greedy => token_of(&shape(row, 0.0)),
            Self::OneNumber => draw(&shape(row, temperature), Support::default(), base).token,
        };
        let distribution = match self {
            Self::TruncatesAfterDraw => with_token(&shape(row, temperature), 32, token),
            // What is outside the reported ids cannot even be sent.
            Self::AddsNoiseInHalfPrecision | Self::RoundsLogits => with_token(&shape(row, temperature), 64, token),
            _ => reported.distribution,
        };
        Some(Drafted { token, distribution })
    }
}

pub(crate) fn shape(row: &[f32], temperature: f32) -> Shaped {
    let params = SamplingParams { temperature, ..SamplingParams::default() };
    let transforms = Transforms::new(params, N_VOCAB).unwrap();
    transforms.shape(&mut row.to_vec(), Vocabulary::Full, &TokenCounts::new(&[]), &[], None).unwrap()
}

/// The `size` likeliest ids with integer weights, and the token if it is not among them.
fn with_token(shaped: &Shaped, size: u32, token: TokenId) -> DraftDistribution {
    // Which numbers it is drawn with does not matter, as the draw is not used.
    let randomness = DraftRandomness::new(&specfleet_speculation::random::DraftSeed([0; 32]));
    let support = Support::Top(NonZeroU32::new(size).unwrap());
    let Drafted { distribution, .. } = draft_token(shaped, support, Rule::Standard, &randomness, 0);
    let DraftDistribution::Sparse(top) = &distribution else { panic!("not sparse: {distribution:?}") };
    if top.ids().binary_search(&token).is_ok() {
        return distribution;
    }
    let likeliest = top.ids()[0];
    let unit = f64::from(top.weights()[0]) / shaped.probability(likeliest);
    let weight = ((shaped.probability(token) * unit).round() as u32).max(1);
    let mut entries: Vec<(TokenId, u32)> = top.ids().iter().copied().zip(top.weights().iter().copied()).collect();
    entries.push((token, weight));
    entries.sort_unstable();
    let (ids, weights) = entries.into_iter().unzip();
    DraftDistribution::Sparse(SparseWeights::new(ids, weights).unwrap())
}

fn in_bf16(row: &[f32], temperature: f32) -> Vec<f32> {
    row.iter().map(|logit| bf16(bf16(*logit) / temperature)).collect()
}

/// Rounds to the nearest of the values that bf16 has, ties to even.
fn bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000)
}

fn noisy_maximum(logits: &[f32], randomness: &DraftRandomness, position: u64) -> TokenId {
    let noise = |id: TokenId| bf16(-(randomness.noise.waiting_time(position, id).ln() as f32));
    let noisy = (0..).zip(logits).map(|(id, logit)| (id, bf16(logit + noise(id))));
    let greatest = noisy.reduce(|best, next| if next.1 > best.1 { next } else { best });
    greatest.unwrap().0
}

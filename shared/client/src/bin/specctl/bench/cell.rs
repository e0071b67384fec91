//! One number of streams at one temperature: pairs of batches in, figures out. No clock and no network here.

use std::time::Duration;

use serde::Serialize;

use crate::acceptance::Acceptance;
use crate::bench::measure::{Batch, Pair};
use crate::bench::predict::Prediction;
use crate::bench::quartiles::Quartiles;
use crate::observe::Observed;
use crate::round_times::RoundTimes;

/// The figures of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Cell {
    pub(super) streams: u32,
    pub(super) temperature: f32,
    /// Pairs of batches behind the figures.
    pub(super) pairs: usize,
    /// Tokens that arrived, with and without speculation.
    pub(super) plain_tokens: usize,
    pub(super) speculative_tokens: usize,
    /// Decoding of one stream.
    pub(super) stream: Comparison,
    /// All streams together, prefill and waiting included.
    pub(super) all_streams: Comparison,
    pub(super) plain_step: Option<RoundTimes>,
    pub(super) round: Option<RoundTimes>,
    /// Tokens of a decoding step with speculation, plain steps included.
    pub(super) tokens_per_round: f64,
    pub(super) accepted_per_round: f64,
    pub(super) mean_draft_length: f64,
    pub(super) acceptance_by_position: Vec<f64>,
    pub(super) acceptance: Acceptance,
    pub(super) prediction: Option<Prediction>,
}

/// Tokens per second of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Comparison {
    pub(super) plain_tokens_per_second: f64,
    pub(super) speculative_tokens_per_second: f64,
    /// Speculative over plain, of the sums over all pairs.
    pub(super) ratio: f64,
    /// Of the ratios of the single pairs.
    pub(super) ratio_quartiles: Option<Quartiles>,
}

impl Cell {
    pub(super) fn of(streams: u32, temperature: f32, pairs: &[Pair]) -> Self {
        let plain: Vec<&Observed> = pairs.iter().flat_map(|pair| &pair.plain.requests).collect();
        let speculative: Vec<&Observed> = pairs.iter().flat_map(|pair| &pair.speculative.requests).collect();
        let reports: Vec<_> = speculative.iter().map(|request| request.speculation()).collect();
        let acceptance = Acceptance::of(&reports);
        let stream = Comparison::of(pairs, decoding);
        let (plain_step, round) = (times(&plain), times(&speculative));
        Self {
            streams,
            temperature,
            pairs: pairs.len(),
            plain_tokens: plain.iter().map(|request| request.n_tokens()).sum(),
            speculative_tokens: speculative.iter().map(|request| request.n_tokens()).sum(),
            stream,
            all_streams: Comparison::of(pairs, whole),
            prediction: Prediction::of(&acceptance, round.as_ref(), plain_step.as_ref(), stream.ratio),
            plain_step,
            round,
            tokens_per_round: tokens_per_step(&speculative),
            accepted_per_round: acceptance.accepted_per_round(),
            mean_draft_length: acceptance.mean_draft_length(),
            acceptance_by_position: acceptance.by_position(),
            acceptance,
        }
    }
}

/// Tokens and the time they took.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    tokens: usize,
    time: Duration,
}

impl Work {
    fn sum(works: impl Iterator<Item = Work>) -> Self {
        works.fold(Self::default(), |sum, work| Self { tokens: sum.tokens + work.tokens, time: sum.time + work.time })
    }

    /// 0 where there is nothing to divide.
    fn tokens_per_second(self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.tokens as f64 / seconds } else { 0.0 }
    }
}

impl Comparison {
    fn of(pairs: &[Pair], work: impl Fn(&Batch) -> Work) -> Self {
        let ratio_of = |plain: Work, speculative: Work| {
            let (plain, speculative) = (plain.tokens_per_second(), speculative.tokens_per_second());
            // A pair in which a side ended with its first token says nothing about speed.
            (plain > 0.0 && speculative > 0.0).then(|| speculative / plain)
        };
        let plain = Work::sum(pairs.iter().map(|pair| work(&pair.plain)));
        let speculative = Work::sum(pairs.iter().map(|pair| work(&pair.speculative)));
        let ratios = pairs.iter().filter_map(|pair| ratio_of(work(&pair.plain), work(&pair.speculative)));
        Self {
            plain_tokens_per_second: plain.tokens_per_second(),
            speculative_tokens_per_second: speculative.tokens_per_second(),
            ratio: ratio_of(plain, speculative).unwrap_or(0.0),
            ratio_quartiles: Quartiles::of(ratios.collect()),
        }
    }
}

fn decoding(batch: &Batch) -> Work {
    let of_request = |request: &Observed| Work { tokens: request.n_decoded(), time: request.decode_time() };
    Work::sum(batch.requests.iter().map(of_request))
}

fn whole(batch: &Batch) -> Work {
    Work { tokens: batch.requests.iter().map(Observed::n_tokens).sum(), time: batch.wall }
}

fn times(requests: &[&Observed]) -> Option<RoundTimes> {
    let timings: Vec<_> = requests.iter().map(|request| request.timings()).collect();
    RoundTimes::of(&timings)
}

fn tokens_per_step(requests: &[&Observed]) -> f64 {
    let tokens: usize = requests.iter().map(|request| request.n_decoded()).sum();
    let steps: u64 = requests.iter().map(|request| u64::from(request.timings().decode_steps)).sum();
    if steps == 0 { 0.0 } else { tokens as f64 / steps as f64 }
}

#[cfg(test)]
mod tests;

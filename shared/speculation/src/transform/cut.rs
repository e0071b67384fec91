//! The transforms that remove unlikely tokens: min-p, top-k, top-p. Removed tokens get weight 0.

use super::SamplingParams;
use crate::{lanes, select};

/// Applies min-p, top-k and top-p in this order to weights whose greatest is 1.
pub(super) fn cut(weights: &mut [f32], params: &SamplingParams) {
    if params.min_p > 0.0 {
        lanes::clear_below(weights, params.min_p);
    }
    let top_k = params.top_k as usize;
    if top_k > 0 && top_k < weights.len() {
        keep_top_k(weights, top_k);
    }
    if params.top_p < 1.0 {
        keep_top_p(weights, f64::from(params.top_p));
    }
}

fn keep_top_k(weights: &mut [f32], top_k: usize) {
    let kept = select::greatest(weights, top_k);
    weights.fill(0.0);
    for entry in kept {
        weights[entry.index as usize] = entry.weight;
    }
}

/// Keeps a token iff the tokens before it, likeliest first, hold less than `top_p` of the mass.
fn keep_top_p(weights: &mut [f32], top_p: f64) {
    let (_, total) = lanes::mass_at_least(weights, 0.0);
    let goal = top_p * total;
    let bracket = select::bracket_of_mass(weights, goal);

    let mut mass_before = bracket.mass_above;
    for entry in select::descending(weights, bracket.low, bracket.high) {
        if mass_before >= goal {
            weights[entry.index as usize] = 0.0;
        }
        mass_before += f64::from(entry.weight);
    }
    lanes::clear_below(weights, bracket.low);
}

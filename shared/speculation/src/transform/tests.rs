#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::law::{BLOCK, Law};

/// Logits whose softmax at temperature 1 is `probabilities`.
fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|probability| probability.ln() as f32).collect()
}

fn shape(params: SamplingParams, row: &[f32]) -> Result<Shaped, Error> {
    shape_after(params, row, &TokenCounts::default(), &[])
}

fn shape_after(
    params: SamplingParams,
    row: &[f32],
    committed: &TokenCounts,
    pending: &[TokenId],
) -> Result<Shaped, Error> {
    let transforms = Transforms::new(params, row.len()).unwrap();
    transforms.shape(&mut row.to_vec(), Vocabulary::Full, committed, pending, None)
}

fn probabilities(shaped: &Shaped, n_vocab: usize) -> Vec<f64> {
    (0..n_vocab as TokenId).map(|token| shaped.probability(token)).collect()
}

#[track_caller]
fn assert_law(params: SamplingParams, row: &[f32], expected: &[f64]) {
    let found = probabilities(&shape(params, row).unwrap(), row.len());
    assert!(found.iter().zip(expected).all(|(left, right)| (left - right).abs() < 1e-4), "{found:?}");
}

#[test]
fn every_mistake_is_reported_with_its_value() {
    let params = SamplingParams {
        temperature: f32::NAN,
        top_p: 0.0,
        min_p: 1.5,
        repetition_penalty: 0.0,
        presence_penalty: 3.0,
        frequency_penalty: f32::INFINITY,
        logit_bias: vec![(9, 1.0), (1, f32::NAN), (2, 0.0), (2, 1.0)],
        end_tokens: vec![4],
        ..SamplingParams::default()
    };
    let invalid = Transforms::new(params, 4).unwrap_err();
    let fields: Vec<&str> = invalid.fields.iter().map(|field| field.field).collect();
    let expected = [
        "temperature",
        "top_p",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logit_bias",
        "logit_bias",
        "end_token_ids",
    ];
    assert_eq!(fields, expected);
    assert!(invalid.to_string().contains("min_p is 1.5, allowed: from 0 to 1"), "{invalid}");
}

#[test]
fn of_a_long_list_of_mistakes_the_first_is_reported_with_the_number_of_others() {
    let params = SamplingParams {
        logit_bias: (4..1004).map(|id| (id, 1.0)).collect(),
        end_tokens: vec![1, 7, 8],
        ..SamplingParams::default()
    };
    let text = Transforms::new(params, 4).unwrap_err().to_string();
    assert!(text.contains("logit_bias is id 4 (and 999 more), allowed: ids below 4"), "{text}");
    assert!(text.contains("end_token_ids is id 7 (and 1 more), allowed: ids below 4"), "{text}");
}

#[test]
fn the_default_changes_nothing() {
    assert_law(SamplingParams::default(), &logits(&[0.1, 0.2, 0.3, 0.4]), &[0.1, 0.2, 0.3, 0.4]);
}

#[test]
fn temperature_shapes_the_target() {
    let params = SamplingParams { temperature: 0.5, ..SamplingParams::default() };
    assert_law(params, &logits(&[0.1, 0.2, 0.3, 0.4]), &[0.0333, 0.1333, 0.3, 0.5333]);
}

#[test]
fn min_p_is_relative_to_the_likeliest() {
    let params = SamplingParams { min_p: 0.2, ..SamplingParams::default() };
    assert_law(params, &logits(&[0.6, 0.3, 0.06, 0.04]), &[0.6667, 0.3333, 0.0, 0.0]);
}

#[test]
fn top_k_breaks_ties_by_lowest_id() {
    let params = SamplingParams { top_k: 2, ..SamplingParams::default() };
    assert_law(params, &[0.0, 1.0, 1.0, 1.0], &[0.0, 0.5, 0.5, 0.0]);
}

#[test]
fn top_p_keeps_the_token_that_crosses_and_breaks_ties_by_lowest_id() {
    let with = |top_p| SamplingParams { top_p, ..SamplingParams::default() };
    let row = logits(&[0.1, 0.2, 0.3, 0.4]);
    assert_law(with(0.39), &row, &[0.0, 0.0, 0.0, 1.0]);
    assert_law(with(0.41), &row, &[0.0, 0.0, 0.4286, 0.5714]);
    assert_law(with(1e-6), &row, &[0.0, 0.0, 0.0, 1.0]);
    assert_law(with(0.3), &[0.0; 4], &[0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn penalties_count_prompt_output_and_pending_once_each() {
    let mut committed = TokenCounts::new(&[0, 0, 1]);
    committed.push_generated(1);
    committed.push_generated(2);
    let params = SamplingParams {
        repetition_penalty: 2.0,
        presence_penalty: 0.25,
        frequency_penalty: 0.5,
        ..SamplingParams::default()
    };
    let row = [1.0, 1.0, -1.0, 1.0, 1.0];
    let shaped = shape_after(params, &row, &committed, &[2, 3, 3]).unwrap();
    // Prompt only; prompt and output; output and pending; pending twice; never seen.
    let adjusted = [0.5, 0.5 - 0.75, -2.0 - 1.25, 0.5 - 1.25, 1.0_f64];
    let total: f64 = adjusted.iter().map(|logit| logit.exp()).sum();
    for (token, logit) in adjusted.iter().enumerate() {
        assert!((shaped.probability(token as TokenId) - logit.exp() / total).abs() < 1e-6, "token {token}");
    }
}

#[test]
fn rejected_tokens_leave_no_trace() {
    let committed = TokenCounts::new(&[0]);
    let params = SamplingParams { frequency_penalty: 2.0, ..SamplingParams::default() };
    let row = [0.0, 0.5, 0.2];
    let before = shape_after(params.clone(), &row, &committed, &[]).unwrap();
    shape_after(params.clone(), &row, &committed, &[1, 1, 2]).unwrap();
    assert_eq!(shape_after(params, &row, &committed, &[]).unwrap(), before);
}

#[test]
fn a_bias_bans_a_token() {
    let params = SamplingParams { logit_bias: vec![(3, -100.0)], temperature: 0.0, ..SamplingParams::default() };
    assert_eq!(shape(params, &[0.0, 1.0, 2.0, 30.0]).unwrap(), Shaped::Point(2));
}

/// Row i bans end tokens iff committed + i < min_tokens.
#[test]
fn min_tokens_bans_end_tokens_at_exactly_the_first_positions() {
    let params = SamplingParams { min_tokens: 3, end_tokens: vec![0], temperature: 0.0, ..SamplingParams::default() };
    let row = logits(&[0.9, 0.1]);
    let mut committed = TokenCounts::new(&[1, 1, 1, 1]);
    for n_committed in 0..5 {
        for n_pending in 0..5 {
            let pending = vec![1; n_pending];
            let chosen = shape_after(params.clone(), &row, &committed, &pending).unwrap();
            let expected = if n_committed + n_pending < 3 { 1 } else { 0 };
            assert_eq!(chosen, Shaped::Point(expected), "{n_committed} committed, {n_pending} pending");
        }
        committed.push_generated(1);
    }
}

#[test]
fn banned_mass_goes_to_the_others() {
    let params = SamplingParams { min_tokens: 1, end_tokens: vec![0], ..SamplingParams::default() };
    assert_law(params, &logits(&[0.5, 0.2, 0.3]), &[0.0, 0.4, 0.6]);
}

/// Bit i of a word allows id 32 w + i.
fn mask(ids: &[TokenId]) -> Mask {
    let mut words = vec![0; ids.iter().max().map_or(0, |id| *id as usize / 32 + 1)];
    ids.iter().for_each(|id| words[*id as usize / 32] |= 1 << (id % 32));
    Mask::from_words(words)
}

#[test]
fn what_a_mask_bans_has_no_probability_and_the_others_share_it() {
    let transforms = |params| Transforms::new(params, 4).unwrap();
    let shape = |params: SamplingParams, ids: &[TokenId]| {
        let mut row = logits(&[0.1, 0.2, 0.3, 0.4]);
        transforms(params).shape(&mut row, Vocabulary::Full, &TokenCounts::default(), &[], Some(&mask(ids)))
    };
    let shaped = shape(SamplingParams::default(), &[0, 2]).unwrap();
    let found = probabilities(&shaped, 4);
    assert!(found.iter().zip([0.25, 0.0, 0.75, 0.0]).all(|(left, right)| (left - right).abs() < 1e-6), "{found:?}");
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    assert_eq!(shape(greedy, &[0, 1]).unwrap(), Shaped::Point(1));
    // A bias does not bring back what is banned, and what is cut is cut among the others.
    let biased = SamplingParams { logit_bias: vec![(3, 100.0)], top_k: 1, ..SamplingParams::default() };
    assert_eq!(probabilities(&shape(biased, &[0, 2]).unwrap(), 4), [0.0, 0.0, 1.0, 0.0]);
    assert_eq!(shape(SamplingParams::default(), &[]), Err(Error::NothingLeft));
    assert_eq!(shape(SamplingParams::default(), &[200]), Err(Error::NothingLeft), "an id that the row does not have");
}

#[test]
fn a_mask_speaks_in_the_numbering_of_the_target() {
    let transforms = Transforms::new(SamplingParams::default(), 1000).unwrap();
    let ids = [2, 5, 900];
    let shape = |allowed: &[TokenId]| {
        transforms.shape(&mut [0.0; 3], Vocabulary::Reduced(&ids), &TokenCounts::default(), &[], Some(&mask(allowed)))
    };
    let shaped = shape(&[3, 5, 900, 901]).unwrap();
    assert_eq!(ids.map(|id| shaped.probability(id)), [0.0, 0.5, 0.5]);
    assert_eq!(shape(&[0, 1, 3]), Err(Error::NothingLeft));
}

/// An exact tie goes to the lowest id.
#[test]
fn greedy_is_the_lowest_arg_max() {
    let params = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    assert_eq!(shape(params.clone(), &[1.0, 5.0, 5.0, 1.0]).unwrap(), Shaped::Point(1));
    let mut long = vec![0.0; 1000];
    (long[700], long[333]) = (9.0, 9.0);
    assert_eq!(shape(params, &long).unwrap(), Shaped::Point(333));
}

#[test]
fn greedy_begins_below_one_in_a_hundred_thousand() {
    let with = |temperature| SamplingParams { temperature, ..SamplingParams::default() };
    assert!(Transforms::new(with(0.99e-5), 4).unwrap().is_greedy());
    assert!(!Transforms::new(with(1e-5), 4).unwrap().is_greedy());
    assert_law(with(1e-5), &[0.0, 1.0, 0.0], &[0.0, 1.0, 0.0]);
}

/// A NaN or infinite row is an error that says where.
#[test]
fn non_finite_rows_are_errors() {
    for temperature in [0.0, 1.0] {
        for bad in [f32::NAN, f32::INFINITY] {
            let params = SamplingParams { temperature, ..SamplingParams::default() };
            let error = shape(params, &[0.0, 0.0, bad, f32::NAN]).unwrap_err();
            assert!(matches!(error, Error::NonFinite { token: 2, value } if value.to_bits() == bad.to_bits()));
        }
    }
}

#[test]
fn a_bias_does_not_hide_a_bad_logit() {
    let params = SamplingParams { min_tokens: 1, end_tokens: vec![1], ..SamplingParams::default() };
    assert!(matches!(shape(params, &[0.0, f32::NAN]), Err(Error::NonFinite { token: 1, .. })));
}

#[test]
fn a_row_with_nothing_left_is_an_error() {
    let params = SamplingParams { min_tokens: 1, end_tokens: vec![0, 1], ..SamplingParams::default() };
    assert_eq!(shape(params, &[0.0, 1.0]), Err(Error::NothingLeft));
    assert_eq!(shape(SamplingParams::default(), &[f32::NEG_INFINITY; 3]), Err(Error::NothingLeft));
    assert_eq!(shape(SamplingParams::default(), &[]), Err(Error::NothingLeft));
}

#[test]
fn extreme_finite_logits_and_parameters_stay_finite() {
    let params = SamplingParams {
        repetition_penalty: f32::MIN_POSITIVE,
        frequency_penalty: -2.0,
        logit_bias: vec![(1, 100.0)],
        ..SamplingParams::default()
    };
    let committed = TokenCounts::new(&[0, 1, 2]);
    let shaped = shape_after(params, &[f32::MAX, 3e38, -3e38, f32::MIN], &committed, &[1]).unwrap();
    let total: f64 = probabilities(&shaped, 4).iter().sum();
    assert!((total - 1.0).abs() < 1e-12, "{shaped:?}");
}

#[test]
fn padding_rows_are_never_looked_at() {
    let transforms = Transforms::new(SamplingParams::default(), 2).unwrap();
    let mut row = [0.0, 0.0, f32::NAN, 90.0];
    let shaped = transforms.shape(&mut row, Vocabulary::Full, &TokenCounts::default(), &[], None).unwrap();
    assert_eq!(probabilities(&shaped, 4), [0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn a_reduced_vocabulary_speaks_in_the_numbering_of_the_target() {
    let ids = [2, 5, 900];
    let params = SamplingParams { logit_bias: vec![(5, 1.0), (6, 1.0)], ..SamplingParams::default() };
    let transforms = Transforms::new(params, 1000).unwrap();
    let committed = TokenCounts::new(&[]);
    let shaped = transforms.shape(&mut [1.0, 0.0, 1.0], Vocabulary::Reduced(&ids), &committed, &[], None).unwrap();
    for token in ids {
        assert!((shaped.probability(token) - 1.0 / 3.0).abs() < 1e-7);
    }
    assert_eq!(shaped.probability(6), 0.0);

    let greedy = Transforms::new(SamplingParams { temperature: 0.0, ..SamplingParams::default() }, 1000).unwrap();
    let shaped = greedy.shape(&mut [1.0, 0.0, 2.0], Vocabulary::Reduced(&ids), &committed, &[], None).unwrap();
    assert_eq!(shaped, Shaped::Point(900));

    let error = greedy.shape(&mut [1.0, 0.0], Vocabulary::Reduced(&ids), &committed, &[], None).unwrap_err();
    assert_eq!(error, Error::RowTooShort { n_logits: 2, n_ids: 3 });
}

/// The definitions of the module docs, by sorting.
fn reference(row: &[f32], params: &SamplingParams) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| (f64::from(logit - max) / f64::from(params.temperature)).exp();
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|left, right| row[*right].total_cmp(&row[*left]));
    order.retain(|index| weight(row[*index]) >= f64::from(params.min_p));
    if params.top_k > 0 {
        order.truncate(params.top_k as usize);
    }
    let total: f64 = order.iter().map(|index| weight(row[*index])).sum();
    let mut before = 0.0;
    order.retain(|index| {
        let keep = params.top_p == 1.0 || before < f64::from(params.top_p) * total;
        before += weight(row[*index]);
        keep
    });
    let total: f64 = order.iter().map(|index| weight(row[*index])).sum();
    let mut probabilities = vec![0.0; row.len()];
    order.iter().for_each(|index| probabilities[*index] = weight(row[*index]) / total);
    probabilities
}

proptest! {
    #[test]
    fn cuts_agree_with_their_definitions(
        row in prop::collection::vec(-8.0..8.0_f32, 1..900),
        temperature in 0.3..2.0_f32,
        top_k in prop_oneof![Just(0_u32), 1..200_u32],
        top_p in prop_oneof![Just(1.0_f32), 0.01..1.0_f32],
        min_p in prop_oneof![Just(0.0_f32), 0.0..0.5_f32],
    ) {
        let params = SamplingParams { temperature, top_k, top_p, min_p, ..SamplingParams::default() };
        let expected = reference(&row, &params);
        let found = probabilities(&shape(params, &row).unwrap(), row.len());
        for (token, (left, right)) in found.iter().zip(&expected).enumerate() {
            prop_assert!((left - right).abs() < 1e-5, "token {}: {} against {}", token, left, right);
        }
    }

    #[test]
    fn a_shaped_row_is_a_law(row in prop::collection::vec(-100.0..100.0_f32, 1..300)) {
        let shaped = shape(SamplingParams::default(), &row).unwrap();
        let blocks = 0..shaped.width().div_ceil(BLOCK);
        prop_assert_eq!(blocks.map(|block| shaped.block_total(block)).sum::<f64>(), shaped.total());
        let sum: f64 = probabilities(&shaped, row.len()).iter().sum();
        prop_assert!((sum - 1.0).abs() < 1e-12);
    }

    /// Word by word or bit by bit: the same ids are left.
    #[test]
    fn a_mask_leaves_the_allowed_ids(words in prop::collection::vec(prop_oneof![Just(0), Just(u32::MAX), any::<u32>()], 0..5), width in 1_usize..150) {
        let mask = Mask::from_words(words);
        let mut row = vec![0.5; width];
        mask.apply(&mut row, Vocabulary::Full);
        for (id, logit) in row.iter().enumerate() {
            prop_assert_eq!(*logit == 0.5, mask.allows(id as TokenId), "id {}", id);
        }
        prop_assert_eq!((0..200).filter(|id| mask.allows(*id)).count(), mask.n_allowed());
    }
}

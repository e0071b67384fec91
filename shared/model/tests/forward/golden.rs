//! Every family, in every way, with both sets of operators, gives the logits that transformers gives.

use specfleet_model::load::{Dtype, Operators};

use crate::support::{BOTH_OPERATORS, CHECKPOINTS, Golden, golden, model, options};
use crate::ways::{Rows, WAYS};

/// Only the order of additions differs.
const F32_TOLERANCE: f32 = 1e-4;

/// The weights are the same numbers; activations are rounded to 8 bits on the way. Logits go up to 8 here
/// with a standard deviation of 1.2 to 1.8; the worst of them was off by 0.21 when this was written.
const BF16_TOLERANCE: f32 = 0.4;

/// The mean tells more than the worst: at most 0.03 when this was written.
const BF16_MEAN_TOLERANCE: f32 = 0.05;

/// Weights, and what they are multiplied with, are rounded to 8 bits or fewer: the worst was off by 0.81 when this
/// was written.
const INT8_TOLERANCE: f32 = 1.2;

/// At most 0.10 when this was written.
const INT8_MEAN_TOLERANCE: f32 = 0.15;

#[test]
fn f32_logits_equal_those_of_transformers() {
    for (name, folder) in CHECKPOINTS {
        for operators in BOTH_OPERATORS {
            let errors = errors(name, &golden(folder), operators, Dtype::F32);
            for (way, Error { worst, .. }) in errors {
                assert!(worst < F32_TOLERANCE, "{name}, {operators}, {way}: off by {worst}");
            }
        }
    }
}

#[test]
fn bf16_logits_are_close_to_those_of_transformers() {
    for (name, folder) in CHECKPOINTS {
        for operators in BOTH_OPERATORS {
            for (way, Error { worst, mean }) in errors(name, &golden(folder), operators, Dtype::Bf16) {
                println!("{name}, {operators}, {way}: worst {worst}, mean {mean}");
                assert!(worst < BF16_TOLERANCE, "{name}, {operators}, {way}: off by {worst}");
                assert!(mean < BF16_MEAN_TOLERANCE, "{name}, {operators}, {way}: off by {mean} in the mean");
            }
        }
    }
}

#[test]
fn int8_logits_are_close_to_those_of_transformers() {
    for (name, folder) in CHECKPOINTS {
        for (way, Error { worst, mean }) in errors(name, &golden(folder), Operators::Fused, Dtype::Int8) {
            println!("{name}, {way}: worst {worst}, mean {mean}");
            assert!(worst < INT8_TOLERANCE, "{name}, {way}: off by {worst}");
            assert!(mean < INT8_MEAN_TOLERANCE, "{name}, {way}: off by {mean} in the mean");
        }
    }
}

struct Error {
    worst: f32,
    mean: f32,
}

fn errors(name: &str, golden: &[Golden], operators: Operators, dtype: Dtype) -> Vec<(&'static str, Error)> {
    let Some(mut model) = model(name, &options(operators, dtype)) else { return Vec::new() };
    let sequences: Vec<_> = golden.iter().map(|golden| golden.tokens.as_slice()).collect();
    let all_blocks = model.kv().n_blocks();
    let mut errors = Vec::new();
    for (way, compute) in WAYS {
        errors.push((way, error(&compute(&mut *model, &sequences), golden)));
        assert_eq!(model.kv().n_available(), all_blocks, "{name}, {way}: blocks leaked");
    }
    errors
}

fn error(rows: &Rows, golden: &[Golden]) -> Error {
    let (mut worst, mut sum, mut count) = (0f32, 0f64, 0u32);
    assert_eq!(rows.len(), golden.len());
    for (rows, golden) in rows.iter().zip(golden) {
        assert_eq!(rows.len(), golden.logits.len());
        for (row, expected) in rows.iter().zip(&golden.logits) {
            let Some(row) = row else { continue };
            assert_eq!(row.len(), expected.len());
            for (logit, expected) in row.iter().zip(expected) {
                let error = (logit - expected).abs();
                worst = if error.is_nan() { f32::NAN } else { worst.max(error) };
                sum += f64::from(error);
                count += 1;
            }
        }
    }
    Error { worst, mean: (sum / f64::from(count)) as f32 }
}

//! A row has the same bits in every way that it can be computed: the reason why text does not change when speculation or
//! other requests come and go. The fused operators promise it by how they are written; libtorch's keep it on a CPU because
//! products are padded and long sums are cut to fixed lengths, which rests on what its kernels do and is only seen here.

use std::num::NonZeroUsize;

use specfleet_model::load::{Dtype, LoadOptions, Operators};
use specfleet_speculation::TokenId;

use crate::support::{BOTH_OPERATORS, CHECKPOINTS, golden, model, options};
use crate::ways::{Model, Rows, WAYS};

#[test]
fn a_row_has_the_same_bits_in_every_way() {
    for (name, folder) in CHECKPOINTS {
        let golden = golden(folder);
        let sequences: Vec<_> = golden.iter().map(|golden| golden.tokens.as_slice()).collect();
        for operators in BOTH_OPERATORS {
            for dtype in dtypes(operators) {
                check(name, &options(operators, dtype), &sequences);
            }
        }
    }
}

/// Where kernels split the sum over the keys into parts.
#[test]
fn a_row_far_from_the_beginning_has_the_same_bits_in_every_way() {
    let (long, short): (Vec<TokenId>, Vec<TokenId>) =
        ((0..240).map(|i| i * 37 % 128).collect(), (0..150).map(|i| i * 11 % 128).collect());
    for operators in BOTH_OPERATORS {
        for dtype in dtypes(operators) {
            check("smollm2", &options(operators, dtype), &[&long, &short]);
        }
    }
}

pub(crate) fn dtypes(operators: Operators) -> Vec<Dtype> {
    let mut dtypes = vec![Dtype::F32, Dtype::Bf16];
    dtypes.extend((operators == Operators::Fused).then_some(Dtype::Int8));
    dtypes
}

fn check(name: &str, options: &LoadOptions, sequences: &[&[TokenId]]) {
    let options = LoadOptions { kv_tokens: 1024, ..options.clone() };
    let Some(mut model) = model(name, &options) else { return };
    assert_same_bits_in_every_way(&mut *model, sequences, &format!("{name}, {options:?}"));
}

pub(crate) fn assert_same_bits_in_every_way(model: &mut Model, sequences: &[&[TokenId]], context: &str) {
    let (_, at_once) = WAYS[0];
    let expected = at_once(model, sequences);
    for (way, compute) in WAYS {
        assert_same_bits(&compute(model, sequences), &expected, &format!("{context}, {way}"));
    }
}

#[test]
fn a_row_has_the_same_bits_with_any_number_of_threads_of_the_fused_operators() {
    let tokens: Vec<TokenId> = (0..100).map(|i| i * 37 % 128).collect();
    for dtype in dtypes(Operators::Fused) {
        let rows = |n_threads| {
            let threads = NonZeroUsize::new(n_threads);
            let mut model = model("smollm2", &LoadOptions { threads, ..options(Operators::Fused, dtype) })?;
            let (_, at_once) = WAYS[0];
            Some(at_once(&mut *model, &[&tokens]))
        };
        let Some(expected) = rows(1) else { continue };
        for n_threads in [2, 3, 4, 7] {
            assert_same_bits(&rows(n_threads).unwrap(), &expected, &format!("{dtype}, {n_threads} threads"));
        }
    }
}

pub(crate) fn assert_same_bits(rows: &Rows, expected: &Rows, context: &str) {
    for (sequence, (rows, expected)) in rows.iter().zip(expected).enumerate() {
        assert_eq!(rows.len(), expected.len(), "{context}");
        for (position, (row, expected)) in rows.iter().zip(expected).enumerate() {
            let Some(row) = row else { continue };
            let bits = |row: &[f32]| row.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
            let same = bits(row) == bits(expected.as_ref().unwrap());
            assert!(same, "{context}: sequence {sequence}, position {position}");
        }
    }
}

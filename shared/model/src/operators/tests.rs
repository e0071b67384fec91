//! The fused operators against libtorch's, one by one, on the same tensors.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::num::NonZeroUsize;

use half::bf16;
use specfleet_kernels::{Int8, Weight};
use specfleet_speculation::TokenId;

use super::fused::{Element, Fused, obstacle};
use super::libtorch::Libtorch;
use super::*;

const N_HEADS: usize = 6;
const N_KV_HEADS: usize = 2;
const HEAD_DIM: usize = 32;
const HIDDEN: usize = 80;
const FFN: usize = 112;
const VOCAB: usize = 50;
const N_BLOCKS: usize = 6;

/// Around the edges of what kernels take at a time.
const ROW_COUNTS: [usize; 8] = [1, 2, 3, 4, 5, 8, 9, 33];

/// Relative to the greatest value. Only the order of additions differs in f32; in bf16 each side rounds its
/// result, or what goes into it, to 8 bits. With 8-bit weights so are all weights and inputs of a product.
fn tolerance<W: Weight<Input: Element>>() -> f64 {
    if W::Input::KIND == Kind::Float { 2e-6 } else { 1.0 / 128.0 }
}

fn geometry<W: Weight<Input: Element>>() -> Geometry {
    let frequencies: Vec<f32> = (0..HEAD_DIM / 2).map(|i| 0.7f32.powi(i as i32)).collect();
    Geometry {
        kind: W::Input::KIND,
        device: Device::Cpu,
        n_heads: N_HEADS,
        n_kv_heads: N_KV_HEADS,
        head_dim: HEAD_DIM,
        norm_eps: 1e-5,
        rotary: RotaryTables::new(&frequencies, N_BLOCKS * BLOCK_TOKENS),
    }
}

/// Both implementations, unless this machine cannot run one.
fn both<W: Weight<Input: Element>>() -> Option<(Libtorch, Fused<W>)> {
    if let Some(reason) = obstacle(&geometry::<W>()) {
        println!("skipped: {reason}");
        return None;
    }
    let threads = NonZeroUsize::new(2).unwrap();
    Some((Libtorch::new(geometry::<W>(), 2).unwrap(), Fused::new(geometry::<W>(), threads).unwrap()))
}

/// Numbers between -1 and 1 that are the same in both types.
fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bf16::from_f32((state >> 40) as f32 / (1 << 23) as f32 - 1.0).to_f32()
    };
    (0..n).map(next).collect()
}

fn tensor(rows: usize, width: usize, seed: u64, kind: Kind) -> Tensor {
    let shape = [rows as i64, width as i64];
    Tensor::from_slice(&numbers(rows * width, seed)).view(shape).to_kind(kind)
}

fn unset(rows: usize, width: usize, kind: Kind) -> Tensor {
    Tensor::full([rows as i64, width as i64], f64::NAN, (kind, Device::Cpu))
}

fn assert_close<W: Weight<Input: Element>>(fused: &Tensor, libtorch: &Tensor, what: &str) {
    assert_eq!((fused.size(), fused.kind()), (libtorch.size(), libtorch.kind()), "{what}");
    let (fused, libtorch) = (fused.to_kind(Kind::Double), libtorch.to_kind(Kind::Double));
    let error = (&fused - &libtorch).abs().max().double_value(&[]);
    let scale = libtorch.abs().max().double_value(&[]);
    let weights = std::any::type_name::<W>();
    assert!(error <= tolerance::<W>() * scale, "{what}, {weights}: off by {error} of {scale}");
}

fn plan(tokens: Vec<TokenId>, sequences: Vec<SequenceRows>) -> RowPlan {
    RowPlan { tokens, sequences, wanted: Vec::new() }
}

/// One sequence of `n_rows` rows from position 0 on.
fn simple_plan(n_rows: usize) -> RowPlan {
    let tokens = (0..n_rows).map(|row| (row * 7 % VOCAB) as TokenId).collect();
    let blocks = (0..n_rows.div_ceil(BLOCK_TOKENS) as u32).collect();
    plan(tokens, vec![SequenceRows { rows: 0..n_rows, start: 0, blocks }])
}

fn matrix<O: Operators>(operators: &O, n_out: &[usize], n_in: usize, bias: bool) -> O::Matrix {
    let parts: Vec<Vec<f32>> = n_out.iter().map(|n_out| numbers(n_out * n_in, *n_out as u64)).collect();
    let parts: Vec<Values<'_>> = parts.iter().map(|part| Values::F32(Cow::Borrowed(part))).collect();
    let bias = bias.then(|| numbers(n_out.iter().sum(), 99));
    operators.matrix(&parts, n_in, bias).unwrap()
}

/// Runs `operator` with both implementations and every row count.
macro_rules! agree {
    ($name:ident, $check:ident) => {
        #[test]
        fn $name() {
            fn check<W: Weight<Input: Element>>() {
                let Some((libtorch, fused)) = both::<W>() else { return };
                for n_rows in ROW_COUNTS {
                    let expected = $check(&libtorch, n_rows);
                    let actual = $check(&fused, n_rows);
                    assert_close::<W>(&actual, &expected, &format!("{n_rows} rows"));
                }
            }
            check::<f32>();
            check::<bf16>();
            check::<Int8>();
        }
    };
}

agree!(embeddings_agree, embedding);
fn embedding<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let mut out = unset(n_rows, HIDDEN, Kind::Float);
    let rows = numbers(VOCAB * HIDDEN, VOCAB as u64);
    let table = operators.table(&Values::F32(Cow::Borrowed(&rows)), HIDDEN).unwrap();
    operators.begin(&simple_plan(n_rows)).unwrap().embedding(&table, &mut out).unwrap();
    out
}

agree!(tied_embeddings_agree, tied_embedding);
fn tied_embedding<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let mut out = unset(n_rows, HIDDEN, Kind::Float);
    let head = matrix(operators, &[VOCAB], HIDDEN, false);
    operators.begin(&simple_plan(n_rows)).unwrap().tied_embedding(&head, &mut out).unwrap();
    out
}

agree!(norms_agree, rms_norm);
fn rms_norm<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let (x, weight) = (tensor(n_rows, HIDDEN, 1, Kind::Float), tensor(1, HIDDEN, 2, Kind::Float).view(-1));
    let mut out = unset(n_rows, HIDDEN, operators.geometry().kind);
    operators.begin(&simple_plan(n_rows)).unwrap().rms_norm(&x, &weight, &mut out).unwrap();
    out
}

agree!(products_agree, linear);
fn linear<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let x = tensor(n_rows, HIDDEN, 1, operators.geometry().kind);
    let mut out = unset(n_rows, 96 + 7, Kind::Float);
    let matrix = matrix(operators, &[96, 7], HIDDEN, true);
    operators.begin(&simple_plan(n_rows)).unwrap().linear(&x, &matrix, &mut out).unwrap();
    out
}

agree!(products_added_to_the_residual_agree, linear_add);
fn linear_add<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let x = tensor(n_rows, FFN, 1, operators.geometry().kind);
    let mut residual = tensor(n_rows, HIDDEN, 2, Kind::Float);
    let matrix = matrix(operators, &[HIDDEN], FFN, false);
    operators.begin(&simple_plan(n_rows)).unwrap().linear_add(&x, &matrix, &mut residual).unwrap();
    residual
}

agree!(heads_agree, head);
fn head<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let x = tensor(n_rows, HIDDEN, 1, operators.geometry().kind);
    let mut logits = vec![f32::NAN; n_rows * VOCAB];
    let matrix = matrix(operators, &[VOCAB], HIDDEN, false);
    operators.begin(&simple_plan(n_rows)).unwrap().head(&x, &matrix, &mut logits).unwrap();
    Tensor::from_slice(&logits)
}

agree!(gated_activations_agree, swiglu);
fn swiglu<O: Operators>(operators: &O, n_rows: usize) -> Tensor {
    let gate_up = tensor(n_rows, 2 * FFN, 1, Kind::Float) * 6.0;
    let mut out = unset(n_rows, FFN, operators.geometry().kind);
    operators.begin(&simple_plan(n_rows)).unwrap().swiglu(&gate_up, &mut out).unwrap();
    out
}

/// What two passes over two sequences leave behind.
struct Attended {
    queries: Vec<Tensor>,
    keys: Tensor,
    values: Tensor,
    out: Vec<Tensor>,
}

/// Two sequences in scattered blocks of a cache that starts full of NaN, as an earlier owner may leave it.
fn attend<O: Operators>(operators: &O, with_norms: bool) -> Attended {
    let geometry = operators.geometry();
    let mut cache = LayerCache::new(geometry, N_BLOCKS).unwrap();
    let _ = (cache.keys.fill_(f64::NAN), cache.values.fill_(f64::NAN));
    let norm = |seed| numbers(HEAD_DIM, seed).into_iter().map(|weight| 1.0 + weight / 2.0).collect();
    let norms = with_norms.then(|| operators.head_norms(norm(1), norm(2)).unwrap());

    let first = [
        SequenceRows { rows: 0..20, start: 0, blocks: vec![3, 1] },
        SequenceRows { rows: 20..25, start: 0, blocks: vec![5] },
    ];
    let second = [
        SequenceRows { rows: 0..3, start: 20, blocks: vec![3, 1] },
        SequenceRows { rows: 3..15, start: 5, blocks: vec![5, 0] },
        SequenceRows { rows: 15..16, start: 0, blocks: vec![2] },
    ];
    let (mut all_queries, mut all_out) = (Vec::new(), Vec::new());
    for (seed, sequences) in [(7, first.into()), (8, second.into())] {
        let sequences: Vec<SequenceRows> = sequences;
        let n_rows = sequences.iter().map(|sequence| sequence.rows.len()).sum();
        let qkv = tensor(n_rows, geometry.qkv_width(), seed, Kind::Float) * 2.0;
        let mut queries = unset(n_rows, geometry.query_width(), geometry.kind);
        let mut out = unset(n_rows, geometry.query_width(), geometry.kind);
        let plan = plan(vec![0; n_rows], sequences);
        let step = operators.begin(&plan).unwrap();
        step.rope_and_cache(&qkv, norms.as_ref(), &mut cache, &mut queries).unwrap();
        step.attention(&queries, &cache, &mut out).unwrap();
        all_queries.push(queries);
        all_out.push(out);
    }
    let written = Tensor::from_slice(&[3i64, 1, 5, 0, 2]);
    Attended {
        queries: all_queries,
        keys: cache.keys.index_select(0, &written),
        values: cache.values.index_select(0, &written),
        out: all_out,
    }
}

#[test]
fn rotated_queries_cache_contents_and_attention_agree() {
    fn check<W: Weight<Input: Element>>(with_norms: bool) {
        let Some((libtorch, fused)) = both::<W>() else { return };
        let (expected, actual) = (attend(&libtorch, with_norms), attend(&fused, with_norms));
        assert_close::<W>(&actual.keys, &expected.keys, "keys");
        assert_close::<W>(&actual.values, &expected.values, "values");
        for pass in 0..2 {
            assert_close::<W>(&actual.queries[pass], &expected.queries[pass], "queries");
            assert_close::<W>(&actual.out[pass], &expected.out[pass], "attention");
        }
    }
    for with_norms in [false, true] {
        check::<f32>(with_norms);
        check::<bf16>(with_norms);
    }
}

#[test]
fn the_fused_operators_refuse_tensors_that_they_cannot_read() {
    let Some((_, fused)) = both::<bf16>() else { return };
    let plan = simple_plan(2);
    let step = fused.begin(&plan).unwrap();
    let mut out = unset(2, HIDDEN, Kind::BFloat16);
    let weight = tensor(1, HIDDEN, 2, Kind::Float).view(-1);
    let wrong_kind = tensor(2, HIDDEN, 1, Kind::BFloat16);
    assert!(step.rms_norm(&wrong_kind, &weight, &mut out).is_err());
    let not_dense = tensor(HIDDEN, 2, 1, Kind::Float).transpose(0, 1);
    assert!(step.rms_norm(&not_dense, &weight, &mut out).is_err());
}

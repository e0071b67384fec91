//! Every public function refuses operands of the wrong size, with a message that says which.

use std::panic::{AssertUnwindSafe, catch_unwind};

use specfleet_kernels::{
    AttentionShape, Output, PackedLinear, QkNorm, RopeTables, Rotation, Segment, attention, embed, linear, rms_norm,
    rope_and_cache, swiglu,
};

use crate::pool;

const SHAPE: AttentionShape = AttentionShape { n_heads: 4, n_kv_heads: 2, head_dim: 16 };

#[track_caller]
fn refuses(expected: &str, call: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(call)).expect_err("must panic");
    let message = match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast::<&str>().unwrap().to_string(),
    };
    assert!(message.contains(expected), "{message:?} should contain {expected:?}");
}

#[test]
fn packing() {
    let Some(pool) = pool(1) else { return };
    refuses("9 weights, rows of 2", || drop(PackedLinear::<f32>::pack(&pool, &[&[0.0; 9]], 2, None)));
    refuses("needs inputs", || drop(PackedLinear::<f32>::pack(&pool, &[&[0.0; 9]], 0, None)));
    refuses("needs outputs", || drop(PackedLinear::<f32>::pack(&pool, &[], 2, None)));
    refuses("one bias per output", || drop(PackedLinear::<f32>::pack(&pool, &[&[0.0; 8]], 2, Some(vec![0.0; 3]))));
}

#[test]
fn products() {
    let Some(pool) = pool(1) else { return };
    let packed = PackedLinear::<f32>::pack(&pool, &[&[0.0; 12]], 4, None);
    refuses("not whole rows", || linear(&pool, &packed, &[0.0; 7], &mut [0.0; 3], Output::Replace));
    refuses("output length", || linear(&pool, &packed, &[0.0; 8], &mut [0.0; 3], Output::Replace));
    refuses("output length", || embed(&packed, &[0, 1], &mut [0.0; 7]));
    refuses("token 3 of 3", || embed(&packed, &[3], &mut [0.0; 4]));
    linear(&pool, &packed, &[], &mut [], Output::Replace);
}

#[test]
fn rows() {
    let Some(pool) = pool(1) else { return };
    refuses("empty weight", || rms_norm(&pool, &[0.0; 4], &[], 1e-5, &mut [0f32; 4]));
    refuses("4 inputs, rows of 3", || rms_norm(&pool, &[0.0; 4], &[1.0; 3], 1e-5, &mut [0f32; 4]));
    refuses("output length", || rms_norm(&pool, &[0.0; 4], &[1.0; 2], 1e-5, &mut [0f32; 2]));
    refuses("no columns", || swiglu(&pool, &[0.0; 4], 0, &mut [0f32; 2]));
    refuses("6 inputs, rows of 4", || swiglu(&pool, &[0.0; 6], 2, &mut [0f32; 3]));
    refuses("output length", || swiglu(&pool, &[0.0; 8], 2, &mut [0f32; 3]));
    rms_norm(&pool, &[], &[1.0; 3], 1e-5, &mut [0f32; 0]);
    swiglu(&pool, &[], 3, &mut [0f32; 0]);
}

/// Operands of the attention functions for one row, to be spoilt one by one.
struct Operands {
    shape: AttentionShape,
    rope: RopeTables,
    qk_norm: Option<QkNorm>,
    blocks: Vec<u32>,
    start: usize,
    qkv: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    out: Vec<f32>,
}

impl Operands {
    fn good() -> Self {
        Self {
            shape: SHAPE,
            rope: RopeTables::new(16, vec![1.0; 40 * 8], vec![0.0; 40 * 8]),
            qk_norm: None,
            blocks: vec![1, 0],
            start: 20,
            qkv: vec![0.0; SHAPE.qkv_width()],
            queries: vec![0.0; SHAPE.query_width()],
            keys: vec![0.0; SHAPE.cache_len(2)],
            values: vec![0.0; SHAPE.cache_len(2)],
            out: vec![0.0; SHAPE.query_width()],
        }
    }

    fn rotate(&mut self) {
        let pool = pool(1).unwrap();
        let segments = [Segment { blocks: &self.blocks, start: self.start, n_rows: 1 }];
        let rotation = Rotation { shape: self.shape, rope: &self.rope, qk_norm: self.qk_norm.as_ref() };
        let (keys, values) = (&mut self.keys, &mut self.values);
        rope_and_cache(&pool, rotation, &segments, &self.qkv, &mut self.queries, keys, values);
    }

    fn attend(&mut self) {
        let pool = pool(1).unwrap();
        let segments = [Segment { blocks: &self.blocks, start: self.start, n_rows: 1 }];
        attention(&pool, self.shape, &segments, &self.queries, &self.keys, &self.values, &mut self.out);
    }

    #[track_caller]
    fn both_refuse(expected: &str, spoil: impl Fn(&mut Self)) {
        Self::rotate_refuses(expected, &spoil);
        Self::attend_refuses(expected, &spoil);
    }

    #[track_caller]
    fn rotate_refuses(expected: &str, spoil: impl Fn(&mut Self)) {
        let mut operands = Self::good();
        spoil(&mut operands);
        refuses(expected, || operands.rotate());
    }

    #[track_caller]
    fn attend_refuses(expected: &str, spoil: impl Fn(&mut Self)) {
        let mut operands = Self::good();
        spoil(&mut operands);
        refuses(expected, || operands.attend());
    }
}

#[test]
fn rotation_and_attention() {
    if !specfleet_kernels::supported() {
        return;
    }
    Operands::good().rotate();
    Operands::good().attend();
    Operands::both_refuse("head dimension 24", |o| o.shape.head_dim = 24);
    Operands::both_refuse("head dimension 272", |o| o.shape.head_dim = 272);
    Operands::both_refuse("4 query heads on 3 key heads", |o| o.shape.n_kv_heads = 3);
    Operands::both_refuse("2 blocks needed, table of 1", |o| o.blocks.truncate(1));
    Operands::both_refuse("block 2 of 2", |o| o.blocks[0] = 2);
    Operands::both_refuse("block 1 of 1", |o| o.keys.truncate(SHAPE.cache_len(1)));
    Operands::both_refuse("keys and values", |o| o.values.truncate(SHAPE.cache_len(1)));
    Operands::both_refuse("queries", |o| o.queries.truncate(3));
    Operands::attend_refuses("output length", |o| o.out.truncate(3));
    Operands::rotate_refuses("qkv length", |o| o.qkv.truncate(3));
    Operands::rotate_refuses("21 positions, tables of 20", |o| {
        o.rope = RopeTables::new(16, vec![1.0; 20 * 8], vec![0.0; 20 * 8]);
    });
    Operands::rotate_refuses("width of the tables", |o| {
        o.rope = RopeTables::new(32, vec![1.0; 40 * 16], vec![0.0; 40 * 16]);
    });
    Operands::rotate_refuses("query norm", |o| {
        o.qk_norm = Some(QkNorm { query: vec![1.0; 15], key: vec![1.0; 16], eps: 1e-6 });
    });
    Operands::rotate_refuses("key norm", |o| {
        o.qk_norm = Some(QkNorm { query: vec![1.0; 16], key: vec![1.0; 15], eps: 1e-6 });
    });
}

#[test]
fn rope_tables() {
    refuses("different length", || drop(RopeTables::new(16, vec![0.0; 8], vec![0.0; 16])));
    refuses("9 angles, rows of 8", || drop(RopeTables::new(16, vec![0.0; 9], vec![0.0; 9])));
    refuses("head dimension 0", || drop(RopeTables::new(0, vec![], vec![])));
}

use half::bf16;
use specfleet_kernels::{
    AttentionShape, BLOCK, Element, QkNorm, RopeTables, Rotation, Segment, WorkerPool, attention, rope_and_cache,
};

use crate::{
    pool,
    reference::{Numbers, assert_near, element_bits, epsilon, rms_norm},
};

const SMOL: AttentionShape = AttentionShape { n_heads: 9, n_kv_heads: 3, head_dim: 64 };

/// One attention layer and the inputs of a few sequences for every position.
struct World {
    shape: AttentionShape,
    cos: Vec<f32>,
    sin: Vec<f32>,
    rope: RopeTables,
    qk_norm: Option<QkNorm>,
    sequences: Vec<Sequence>,
    n_blocks: usize,
}

struct Sequence {
    blocks: Vec<u32>,
    /// `[positions, qkv_width]`
    qkv: Vec<f32>,
}

/// Rows of a batch: sequence, first position, number of rows.
type Part = (usize, usize, usize);

impl World {
    fn new(shape: AttentionShape, with_norm: bool, lengths: &[usize]) -> Self {
        let mut numbers = Numbers(shape.head_dim as u64);
        let n_positions = *lengths.iter().max().unwrap();
        let half = shape.head_dim / 2;
        let angle = |index: usize| {
            let (position, pair) = (index / half, index % half);
            position as f64 * 10_000f64.powf(-(pair as f64) / half as f64)
        };
        let cos: Vec<f32> = (0..n_positions * half).map(|index| angle(index).cos() as f32).collect();
        let sin: Vec<f32> = (0..n_positions * half).map(|index| angle(index).sin() as f32).collect();
        let qk_norm = with_norm.then(|| QkNorm {
            query: numbers.floats(shape.head_dim).iter().map(|x| 2.0 + x).collect(),
            key: numbers.floats(shape.head_dim).iter().map(|x| 2.0 + x).collect(),
            eps: 1e-6,
        });
        let n_blocks = lengths.iter().map(|n| n.div_ceil(BLOCK)).sum::<usize>() + 1;
        let mut free: Vec<u32> = (0..n_blocks as u32).collect();
        let mut block = || free.swap_remove(numbers.below(free.len()));
        let tables: Vec<Vec<u32>> = lengths.iter().map(|n| (0..n.div_ceil(BLOCK)).map(|_| block()).collect()).collect();
        let sequences = lengths.iter().zip(tables).map(|(n, blocks)| Sequence {
            blocks,
            qkv: numbers.floats(n * shape.qkv_width()).iter().map(|x| x * 2.0).collect(),
        });
        let sequences = sequences.collect();
        let rope = RopeTables::new(shape.head_dim, cos.clone(), sin.clone());
        Self { shape, cos, sin, rope, qk_norm, sequences, n_blocks }
    }

    fn qkv(&self, (sequence, start, n_rows): Part) -> &[f32] {
        let width = self.shape.qkv_width();
        &self.sequences[sequence].qkv[start * width..(start + n_rows) * width]
    }

    /// The output rows of the exact computation on rounded queries, keys and values.
    fn exact<E: Element>(&self, sequence: usize, position: usize) -> Vec<f64> {
        let shape = self.shape;
        let group = shape.n_heads / shape.n_kv_heads;
        let mut out = Vec::new();
        for head in 0..shape.n_heads {
            let query = self.head::<E>(sequence, position, head);
            let kv_head = head / group;
            let scores: Vec<f64> = (0..=position)
                .map(|at| {
                    let key = self.head::<E>(sequence, at, shape.n_heads + kv_head);
                    query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>() / (shape.head_dim as f64).sqrt()
                })
                .collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
            let mut mean = vec![0.0; shape.head_dim];
            for (at, score) in scores.iter().enumerate() {
                let value = self.head::<E>(sequence, at, shape.n_heads + shape.n_kv_heads + kv_head);
                for (mean, value) in mean.iter_mut().zip(value) {
                    *mean += (score - largest).exp() / total * value;
                }
            }
            out.extend(mean);
        }
        out
    }

    /// A query, key or value head as it enters the products.
    fn head<E: Element>(&self, sequence: usize, position: usize, head: usize) -> Vec<f64> {
        let shape = self.shape;
        let (dim, half) = (shape.head_dim, shape.head_dim / 2);
        let row = self.qkv((sequence, position, 1));
        let mut x: Vec<f64> = row[head * dim..][..dim].iter().map(|x| f64::from(*x)).collect();
        if head < shape.n_heads + shape.n_kv_heads {
            if let Some(norm) = &self.qk_norm {
                let weight = if head < shape.n_heads { &norm.query } else { &norm.key };
                x = rms_norm(&x, weight, norm.eps.into());
            }
            for pair in 0..half {
                let (cos, sin) = (self.cos[position * half + pair], self.sin[position * half + pair]);
                let (cos, sin) = (f64::from(cos), f64::from(sin));
                let (a, b) = (x[pair], x[pair + half]);
                (x[pair], x[pair + half]) = (a * cos - b * sin, b * cos + a * sin);
            }
        }
        x.into_iter().map(|x| f64::from(E::from_f32(x as f32).to_f32())).collect()
    }
}

/// The cache of a world's layer.
struct Cache<E> {
    keys: Vec<E>,
    values: Vec<E>,
}

impl<E: Element> Cache<E> {
    fn filled(world: &World, with: f32) -> Self {
        let tiles = vec![E::from_f32(with); world.shape.cache_len(world.n_blocks)];
        Self { keys: tiles.clone(), values: tiles }
    }

    /// One forward pass over the parts: attention's output rows.
    fn forward(&mut self, pool: &WorkerPool, world: &World, parts: &[Part]) -> Vec<E> {
        let qkv: Vec<f32> = parts.iter().flat_map(|part| world.qkv(*part)).copied().collect();
        let segments: Vec<_> = parts
            .iter()
            .map(|&(sequence, start, n_rows)| Segment { blocks: &world.sequences[sequence].blocks, start, n_rows })
            .collect();
        let n_rows = qkv.len() / world.shape.qkv_width();
        let mut queries = vec![E::default(); n_rows * world.shape.query_width()];
        let mut out = queries.clone();
        let rotation = Rotation { shape: world.shape, rope: &world.rope, qk_norm: world.qk_norm.as_ref() };
        rope_and_cache(pool, rotation, &segments, &qkv, &mut queries, &mut self.keys, &mut self.values);
        attention(pool, world.shape, &segments, &queries, &self.keys, &self.values, &mut out);
        out
    }
}

#[test]
fn attention_matches_exact_softmax() {
    for (n_heads, n_kv_heads, head_dim) in [(9, 3, 64), (4, 4, 80), (4, 1, 96), (14, 2, 128), (2, 1, 16), (2, 2, 256)] {
        let shape = AttentionShape { n_heads, n_kv_heads, head_dim };
        matches_exact_softmax::<bf16>(shape, head_dim == 128);
        matches_exact_softmax::<f32>(shape, head_dim == 64);
    }
}

fn matches_exact_softmax<E: Element>(shape: AttentionShape, with_norm: bool) {
    let Some(pool) = pool(2) else { return };
    let lengths = [1, 15, 16, 17, 40, 290];
    let world = World::new(shape, with_norm, &lengths);
    let mut cache = Cache::<E>::filled(&world, f32::NAN);
    let prefill: Vec<Part> = lengths.iter().enumerate().map(|(sequence, n)| (sequence, 0, *n)).collect();
    let out = cache.forward(&pool, &world, &prefill);
    let mut rows = out.chunks_exact(shape.query_width());
    for (sequence, _, n_rows) in prefill {
        for position in 0..n_rows {
            let row = rows.next().unwrap();
            if position > 20 && position % 37 != 0 && position + 1 != n_rows {
                continue;
            }
            for (out, wanted) in row.iter().zip(world.exact::<E>(sequence, position)) {
                // Weights, values and the output are rounded once each; values are at most 2.
                let what = format!("{shape:?} sequence {sequence} position {position}");
                assert_near(out.to_f32().into(), wanted, 4.0 * epsilon::<E>() + 2e-5, &what);
            }
        }
    }
}

#[test]
fn attention_has_the_same_bits_however_the_rows_arrive() {
    same_bits_however_rows_arrive::<bf16>();
    same_bits_however_rows_arrive::<f32>();
}

fn same_bits_however_rows_arrive<E: Element>() {
    let lengths = [530, 300, 33];
    let world = World::new(SMOL, true, &lengths);
    let width = SMOL.query_width();
    let Some(single) = pool(1) else { return };
    let mut cache = Cache::<E>::filled(&world, 0.0);
    let alone: Vec<Vec<Vec<u32>>> = (0..lengths.len())
        .map(|sequence| {
            let step = |position| element_bits(&cache.forward(&single, &world, &[(sequence, position, 1)]));
            (0..lengths[sequence]).map(step).collect()
        })
        .collect();
    let mut numbers = Numbers(8);
    for n_threads in 1..=4 {
        let pool = pool(n_threads).unwrap();
        for longest in [1000, 40, 7] {
            let mut cache = Cache::<E>::filled(&world, f32::NAN);
            let mut done = [0; 3];
            while done != lengths {
                let mut parts = Vec::new();
                for offset in 0..3 {
                    let sequence = (offset + n_threads) % 3;
                    let left = lengths[sequence] - done[sequence];
                    let n_rows = left.min(1 + numbers.below(longest));
                    parts.push((sequence, done[sequence], n_rows));
                    done[sequence] += n_rows;
                }
                let out = cache.forward(&pool, &world, &parts);
                let mut rows = out.chunks_exact(width);
                for (sequence, start, n_rows) in parts {
                    for (index, alone) in alone[sequence][start..start + n_rows].iter().enumerate() {
                        let row = element_bits(rows.next().unwrap());
                        assert_eq!(row, *alone, "sequence {sequence} position {}", start + index);
                    }
                }
            }
        }
    }
}

#[test]
fn rolled_back_rows_leave_no_trace() {
    let Some(pool) = pool(2) else { return };
    let world = World::new(SMOL, false, &[60, 60]);
    let mut clean = Cache::<bf16>::filled(&world, 0.0);
    clean.forward(&pool, &world, &[(0, 0, 30)]);
    let wanted = clean.forward(&pool, &world, &[(0, 30, 5)]);
    let mut used = Cache::<bf16>::filled(&world, f32::NAN);
    used.forward(&pool, &world, &[(0, 0, 30)]);
    // Rejected draft tokens, up into the next block: the other sequence's rows in these places.
    let mut rejected = World::new(SMOL, false, &[60, 60]);
    rejected.sequences[0].qkv = world.sequences[1].qkv.clone();
    used.forward(&pool, &rejected, &[(0, 30, 8)]);
    let got = used.forward(&pool, &world, &[(0, 30, 5)]);
    assert_eq!(element_bits(&got), element_bits(&wanted));
}

#[test]
fn a_cached_nan_is_not_hidden() {
    let Some(pool) = pool(1) else { return };
    let mut world = World::new(SMOL, false, &[40]);
    world.sequences[0].qkv[10 * SMOL.qkv_width() + SMOL.query_width()] = f32::NAN;
    let out = Cache::<bf16>::filled(&world, 0.0).forward(&pool, &world, &[(0, 0, 40)]);
    // The first key head, hence the first three query heads, from position 10 on.
    for (position, row) in out.chunks_exact(SMOL.query_width()).enumerate() {
        for (index, value) in row.iter().enumerate() {
            assert_eq!(value.is_nan(), position >= 10 && index < 3 * 64, "position {position} index {index}");
        }
    }
}

#[test]
fn tiles_are_laid_out_as_documented() {
    tiles_are_laid_out::<bf16>();
    tiles_are_laid_out::<f32>();
}

fn tiles_are_laid_out<E: Element>() {
    let Some(pool) = pool(1) else { return };
    let world = World::new(SMOL, false, &[21]);
    let mut cache = Cache::<E>::filled(&world, f32::NAN);
    cache.forward(&pool, &world, &[(0, 0, 21)]);
    let dim = SMOL.head_dim;
    for kv_head in 0..SMOL.n_kv_heads {
        for position in 0..21 {
            let block = world.sequences[0].blocks[position / BLOCK] as usize;
            let slot = position % BLOCK;
            let tile = (block * SMOL.n_kv_heads + kv_head) * dim * BLOCK;
            let keys = world.head::<E>(0, position, SMOL.n_heads + kv_head);
            let values = world.head::<E>(0, position, SMOL.n_heads + SMOL.n_kv_heads + kv_head);
            for index in 0..dim {
                let at = (index / E::PAIR * BLOCK + slot) * E::PAIR + index % E::PAIR;
                let key = cache.keys[tile + at].to_f32();
                assert_near(key.into(), keys[index], 2.0 * epsilon::<E>() * keys[index].abs() + 1e-6, "key");
                let at = (slot / E::PAIR * dim + index) * E::PAIR + slot % E::PAIR;
                assert_eq!(f64::from(cache.values[tile + at].to_f32()), values[index]);
            }
        }
    }
}

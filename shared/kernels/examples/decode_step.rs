//! Times whole decoding steps of a 135M-parameter Llama on made-up weights, and compares them with
//! the speed at which the same threads can read that much memory.
//!
//! ```text
//! cargo run --release -p specfleet-kernels --example decode_step -- [threads] [context] [rows,...]
//! ```

use std::{
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use half::bf16;
use specfleet_kernels::{
    AlignedBuffer, AttentionShape, BLOCK, Output, PackedLinear, RopeTables, Rotation, Segment, WorkerPool, attention,
    bandwidth, embed, linear, rms_norm, rope_and_cache, swiglu,
};

const N_LAYERS: usize = 30;
const WIDTH: usize = 576;
const FFN: usize = 1536;
const VOCABULARY: usize = 49152;
const SHAPE: AttentionShape = AttentionShape { n_heads: 9, n_kv_heads: 3, head_dim: 64 };
const EPS: f32 = 1e-5;

/// Steps timed per number of rows. The fastest says what the kernels can do, the median what else the
/// machine was doing.
const STEPS: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| match args.get(index) {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let n_threads = NonZeroUsize::new(number(0, 2)?).ok_or("threads: at least 1")?;
    let context = number(1, 200)?;
    let row_counts = args.get(2).map_or("1,2,4,5,8,16", String::as_str);
    let pool = WorkerPool::new(n_threads)?;
    let read_loop = bandwidth::read_gb_per_second(&pool, 270 << 20);
    println!("{n_threads} threads, {context} positions of context; read loop {read_loop:.1} GB/s");
    let model = Model::new(&pool);
    let gigabytes = model.n_bytes() as f64 / 1e9;
    for rows in row_counts.split(',') {
        let rows: usize = rows.parse()?;
        let mut state = State::new(&model, context, rows);
        let mut times: Vec<Times> = (0..STEPS).map(|_| state.step(&pool, &model)).collect();
        times.sort_by_key(Times::total);
        let (best, median) = (&times[0], 1e3 * times[STEPS / 2].total().as_secs_f64());
        let speed = gigabytes / best.total().as_secs_f64();
        let percent = 100.0 * speed / read_loop;
        println!("{rows:4} rows: {best}, median {median:.2}; {speed:.1} GB/s, {percent:.0}% of the read loop");
    }
    Ok(())
}

struct Layer {
    qkv: PackedLinear<bf16>,
    output: PackedLinear<bf16>,
    gate_up: PackedLinear<bf16>,
    down: PackedLinear<bf16>,
}

struct Model {
    layers: Vec<Layer>,
    head: PackedLinear<bf16>,
    norm: Vec<f32>,
    rope: RopeTables,
}

impl Model {
    fn new(pool: &WorkerPool) -> Self {
        let pack = |n_out, n_in| PackedLinear::pack(pool, &[&random(n_out * n_in)], n_in, None);
        let layers = (0..N_LAYERS).map(|_| Layer {
            qkv: pack(SHAPE.qkv_width(), WIDTH),
            output: pack(WIDTH, SHAPE.query_width()),
            gate_up: pack(2 * FFN, WIDTH),
            down: pack(WIDTH, FFN),
        });
        let angles = 4096 * SHAPE.head_dim / 2;
        Self {
            layers: layers.collect(),
            head: pack(VOCABULARY, WIDTH),
            norm: vec![1.0; WIDTH],
            rope: RopeTables::new(SHAPE.head_dim, vec![0.8; angles], vec![0.6; angles]),
        }
    }

    fn n_bytes(&self) -> usize {
        let layers = self
            .layers
            .iter()
            .map(|layer| layer.qkv.n_bytes() + layer.output.n_bytes() + layer.gate_up.n_bytes() + layer.down.n_bytes());
        layers.sum::<usize>() + self.head.n_bytes()
    }
}

/// One sequence's cache and the activations of its rows.
struct State {
    context: usize,
    n_rows: usize,
    blocks: Vec<u32>,
    keys: Vec<AlignedBuffer<bf16>>,
    values: Vec<AlignedBuffer<bf16>>,
    residual: AlignedBuffer<f32>,
    normed: AlignedBuffer<bf16>,
    qkv: AlignedBuffer<f32>,
    queries: AlignedBuffer<bf16>,
    attended: AlignedBuffer<bf16>,
    gate_up: AlignedBuffer<f32>,
    gated: AlignedBuffer<bf16>,
    logits: AlignedBuffer<f32>,
}

impl State {
    fn new(model: &Model, context: usize, n_rows: usize) -> Self {
        let n_blocks = (context + n_rows).div_ceil(BLOCK);
        let cache = || AlignedBuffer::zeroed(SHAPE.cache_len(n_blocks));
        Self {
            context,
            n_rows,
            blocks: (0..n_blocks as u32).rev().collect(),
            keys: model.layers.iter().map(|_| cache()).collect(),
            values: model.layers.iter().map(|_| cache()).collect(),
            residual: AlignedBuffer::zeroed(n_rows * WIDTH),
            normed: AlignedBuffer::zeroed(n_rows * WIDTH),
            qkv: AlignedBuffer::zeroed(n_rows * SHAPE.qkv_width()),
            queries: AlignedBuffer::zeroed(n_rows * SHAPE.query_width()),
            attended: AlignedBuffer::zeroed(n_rows * SHAPE.query_width()),
            gate_up: AlignedBuffer::zeroed(n_rows * 2 * FFN),
            gated: AlignedBuffer::zeroed(n_rows * FFN),
            logits: AlignedBuffer::zeroed(n_rows * VOCABULARY),
        }
    }

    fn step(&mut self, pool: &WorkerPool, model: &Model) -> Times {
        let Self { residual, normed, qkv, queries, attended, gate_up, gated, logits, .. } = self;
        let _awake = pool.awake();
        let mut clock = Clock::start();
        let segments = [Segment { blocks: &self.blocks, start: self.context, n_rows: self.n_rows }];
        let rotation = Rotation { shape: SHAPE, rope: &model.rope, qk_norm: None };
        let tokens: Vec<u32> = (0..self.n_rows as u32).collect();
        embed(&model.head, &tokens, residual);
        clock.lap(|times| &mut times.other);
        for (index, layer) in model.layers.iter().enumerate() {
            let (keys, values) = (&mut self.keys[index], &mut self.values[index]);
            rms_norm(pool, residual, &model.norm, EPS, normed);
            clock.lap(|times| &mut times.other);
            linear(pool, &layer.qkv, normed, qkv, Output::Replace);
            clock.lap(|times| &mut times.products);
            rope_and_cache(pool, rotation, &segments, qkv, queries, keys, values);
            clock.lap(|times| &mut times.other);
            attention(pool, SHAPE, &segments, queries, keys, values, attended);
            clock.lap(|times| &mut times.attention);
            linear(pool, &layer.output, attended, residual, Output::Accumulate);
            clock.lap(|times| &mut times.products);
            rms_norm(pool, residual, &model.norm, EPS, normed);
            clock.lap(|times| &mut times.other);
            linear(pool, &layer.gate_up, normed, gate_up, Output::Replace);
            clock.lap(|times| &mut times.products);
            swiglu(pool, gate_up, FFN, gated);
            clock.lap(|times| &mut times.other);
            linear(pool, &layer.down, gated, residual, Output::Accumulate);
            clock.lap(|times| &mut times.products);
        }
        rms_norm(pool, residual, &model.norm, EPS, normed);
        clock.lap(|times| &mut times.other);
        linear(pool, &model.head, normed, logits, Output::Replace);
        clock.lap(|times| &mut times.products);
        clock.times
    }
}

/// Where the time of a step went.
#[derive(Default)]
struct Times {
    products: Duration,
    attention: Duration,
    other: Duration,
}

impl Times {
    fn total(&self) -> Duration {
        self.products + self.attention + self.other
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| 1e3 * time.as_secs_f64();
        write!(
            f,
            "{:6.2} ms (products {:.2}, attention {:.2}, other {:.2})",
            ms(self.total()),
            ms(self.products),
            ms(self.attention),
            ms(self.other)
        )
    }
}

struct Clock {
    last: Instant,
    times: Times,
}

impl Clock {
    fn start() -> Self {
        Self { last: Instant::now(), times: Times::default() }
    }

    fn lap(&mut self, counter: impl Fn(&mut Times) -> &mut Duration) {
        let now = Instant::now();
        *counter(&mut self.times) += now - self.last;
        self.last = now;
    }
}

/// Small weights from a linear congruential generator.
fn random(n: usize) -> Vec<bf16> {
    let mut state = n as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bf16::from_f32(((state >> 40) as f32 / 16_777_216.0 - 0.5) * 0.1)
    };
    (0..n).map(|_| next()).collect()
}

//! How long a step takes, and how much of the memory's bandwidth it reaches.
//!
//! ```text
//! cargo run --release -p specfleet-model --example step_time -- MODEL [CONTEXT] [THREADS] [DTYPE] [OPERATORS]
//! ```
//!
//! Prints milliseconds per step of 1, 2, 4, 5 and 16 rows after CONTEXT tokens (200), for both sets of
//! operators or one, the weights read per second, and what part that is of a plain read loop in the same run.

use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use specfleet_kernels::{WorkerPool, bandwidth};
use specfleet_model::batch::{LanguageModel, Segment, WantedLogits};
use specfleet_model::load::{Dtype, LoadOptions, Operators, load};

/// Steps that are timed; the median counts.
const STEPS: usize = 21;

const USAGE: &str = "usage: step_time MODEL [CONTEXT] [THREADS] [bf16|int8|f32] [fused|libtorch]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or(USAGE)?;
    let context: usize = arguments.next().map_or(Ok(200), |context| context.parse())?;
    let threads: NonZeroUsize = arguments.next().map_or(Ok(NonZeroUsize::MIN), |threads| threads.parse())?;
    let dtype: Dtype = arguments.next().map_or(Ok(Dtype::Bf16), |dtype| dtype.parse())?;
    let only: Option<Operators> = arguments.next().map(|operators| operators.parse()).transpose()?;
    let read_loop = WorkerPool::new(threads).map(|pool| bandwidth::read_gb_per_second(&pool, 400_000_000)).ok();
    if let Some(read_loop) = read_loop {
        println!("read loop: {read_loop:.1} GB/s with {threads} threads");
    }
    for operators in [Operators::Fused, Operators::Libtorch] {
        if only.is_some_and(|only| only != operators) {
            continue;
        }
        let options =
            LoadOptions { dtype, threads: Some(threads), kv_tokens: context + 64, operators, ..Default::default() };
        match load(Path::new(&model), &options) {
            Ok(mut loaded) => time_steps(&mut *loaded.model, context, read_loop)?,
            Err(error) => println!("{operators}: {error}"),
        }
    }
    Ok(())
}

fn time_steps(model: &mut dyn LanguageModel, context: usize, read_loop: Option<f64>) -> Result<(), Box<dyn Error>> {
    let gigabytes = model.description().step_weight_bytes as f64 / 1e9;
    println!("{}, weights {gigabytes:.3} GB, {context} tokens of context", model.description().device);
    let mut kv = model.kv().start(&[]);
    model.kv().reserve(&mut kv, context + 32)?;
    let prompt: Vec<u32> = (0..context as u32).map(|i| i % 100).collect();
    model.forward(&mut [Segment { kv: &mut kv, tokens: &prompt, logits: WantedLogits::None }])?;
    for n_rows in [1, 2, 4, 5, 16] {
        let mut milliseconds = Vec::new();
        for _ in 0..STEPS {
            model.kv().truncate(&mut kv, context);
            model.kv().reserve(&mut kv, context + n_rows)?;
            let started = Instant::now();
            model.forward(&mut [Segment { kv: &mut kv, tokens: &prompt[..n_rows], logits: WantedLogits::All }])?;
            milliseconds.push(started.elapsed().as_secs_f64() * 1e3);
        }
        milliseconds.sort_by(f64::total_cmp);
        let (median, best) = (milliseconds[STEPS / 2], milliseconds[0]);
        let rate = gigabytes / median * 1e3;
        let share =
            read_loop.map_or(String::new(), |read_loop| format!(", {:.0}% of the read loop", 100.0 * rate / read_loop));
        println!("  {n_rows:2} rows: {median:6.2} ms (best {best:.2}), {rate:5.1} GB/s{share}");
    }
    model.kv().release(kv);
    Ok(())
}

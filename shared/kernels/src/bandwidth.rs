//! The plain read loop that decoding speed is measured against.

use std::time::Instant;

use crate::{AlignedBuffer, WorkerPool, avx512};

/// Elements that a worker reads at a time.
const CHUNK: usize = 1 << 18;

/// Passes over the memory; the fastest counts, because other users of the machine only slow it.
const PASSES: usize = 5;

/// Gigabytes per second at which the pool's workers read `n_bytes` of memory together: with far
/// more bytes than the caches hold, the upper limit for a step that reads as many weights.
#[must_use]
pub fn read_gb_per_second(pool: &WorkerPool, n_bytes: usize) -> f64 {
    let mut memory = AlignedBuffer::<f32>::zeroed(n_bytes.div_ceil(size_of::<f32>()).max(1));
    // Pages that were never written all share one frame of zeros.
    memory.fill(1.0);
    let _awake = pool.awake();
    let pass = || {
        let start = Instant::now();
        pool.run(memory.len().div_ceil(CHUNK), |chunk| {
            let end = memory.len().min((chunk + 1) * CHUNK);
            std::hint::black_box(avx512::read(pool.isa(), &memory[chunk * CHUNK..end]));
        });
        start.elapsed().as_secs_f64()
    };
    let fastest = (0..PASSES).map(|_| pass()).fold(f64::INFINITY, f64::min);
    (memory.len() * size_of::<f32>()) as f64 / fastest / 1e9
}

//! Worker threads that start on a piece of work within a microsecond.
//!
//! A decoding step is a hundred products of some ten microseconds each, so waking threads through
//! the operating system for each would cost as much as the products. While a step runs the helpers
//! spin; between steps they sleep, because a spinning helper takes the core from whoever else
//! needs it.
//!
//! Two services may share two cores, and then a helper can lose its core for milliseconds at any
//! moment. So work is never assigned: workers claim chunks from a shared counter, the caller among
//! them, and a helper that is not scheduled simply claims none. The caller waits only for chunks
//! that a helper has begun.

mod job;

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use crate::isa::Isa;
use job::Shared;

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The processor lacks the instructions the kernels are written in.
    #[error("this processor has no AVX-512 with bf16 and VNNI, which the fused kernels need: use other operators")]
    Unsupported,
    /// A helper thread could not be started.
    #[error("cannot start helper thread {index} of {wanted}: use fewer threads")]
    Spawn {
        /// Number of the helper, from 1.
        index: usize,
        /// Helpers wanted.
        wanted: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// The calling thread and `n_threads - 1` helpers.
///
/// One piece of work runs at a time. A second caller that finds the pool busy, or a chunk that
/// itself calls [`run`](Self::run), does its work alone.
#[derive(Debug)]
pub struct WorkerPool {
    isa: Isa,
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// A pool of `n_threads`, the caller being one of them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where [`crate::supported`] is false, [`Error::Spawn`] when the
    /// system gives no thread.
    pub fn new(n_threads: NonZeroUsize) -> Result<Self, Error> {
        let isa = Isa::detect().ok_or(Error::Unsupported)?;
        let mut pool = Self { isa, shared: Arc::default(), helpers: Vec::new() };
        let wanted = n_threads.get() - 1;
        for index in 1..=wanted {
            let shared = Arc::clone(&pool.shared);
            let helper = std::thread::Builder::new()
                .name(format!("kernel-{index}"))
                .spawn(move || shared.help())
                .map_err(|source| Error::Spawn { index, wanted, source })?;
            pool.helpers.push(helper);
        }
        Ok(pool)
    }

    /// Threads that work: the helpers and the caller.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Keeps the helpers spinning until the guard is dropped: for the length of one forward pass,
    /// or of a few that follow each other at once. Guards nest.
    ///
    /// Waking takes the helpers some ten microseconds; the caller need not wait for it.
    pub fn awake(&self) -> Awake<'_> {
        if self.shared.begin_step() {
            self.unpark();
        }
        Awake { pool: self }
    }

    /// Calls `body` once for each chunk number below `n_chunks`, on all workers, in any order, and
    /// returns when all calls have returned.
    ///
    /// # Panics
    /// When a call of `body` panics: with its payload, after the other calls have returned.
    pub fn run(&self, n_chunks: usize, body: impl Fn(usize) + Sync) {
        if n_chunks <= 1 || self.helpers.is_empty() {
            (0..n_chunks).for_each(body);
            return;
        }
        let _awake = self.awake();
        self.shared.run(n_chunks, &body);
    }

    /// Splits `out` into groups of `rows_per_chunk` rows of `width` elements and calls
    /// `body(first row, rows)` for each. One group, and the caller does it at once.
    pub(crate) fn over_rows<T: Send>(
        &self,
        out: &mut [T],
        width: usize,
        rows_per_chunk: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let rows_per_chunk = rows_per_chunk.max(1);
        let n_chunks = out.len().div_ceil(rows_per_chunk * width);
        if n_chunks <= 1 {
            return body(0, out);
        }
        let groups: Vec<_> = out.chunks_mut(rows_per_chunk * width).map(Mutex::new).collect();
        self.run(n_chunks, |chunk| {
            let mut group = groups[chunk].lock().unwrap_or_else(PoisonError::into_inner);
            body(chunk * rows_per_chunk, &mut group);
        });
    }

    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    fn unpark(&self) {
        for helper in &self.helpers {
            helper.thread().unpark();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.stop();
        self.unpark();
        for helper in self.helpers.drain(..) {
            // Helpers catch the panics of their chunks, so there is none to pass on.
            let _ = helper.join();
        }
    }
}

/// While it lives the helpers of a pool spin; see [`WorkerPool::awake`].
#[derive(Debug)]
#[must_use = "the helpers sleep again when the guard is dropped"]
pub struct Awake<'a> {
    pool: &'a WorkerPool,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.pool.shared.end_step();
    }
}

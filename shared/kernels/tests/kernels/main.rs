//! Kernels against plain scalar arithmetic, and against themselves in other company.
#![allow(clippy::unwrap_used)]

mod attention;
mod contracts;
mod int8;
mod linear;
mod pool;
mod reference;
mod rows;

use std::num::NonZeroUsize;

use specfleet_kernels::WorkerPool;

/// A pool, where the machine has the instructions; the tests have nothing to say elsewhere, which is a failure where
/// `SPECFLEET_TEST_REQUIRE_FUSED` is set.
fn pool(n_threads: usize) -> Option<WorkerPool> {
    let pool = WorkerPool::new(NonZeroUsize::new(n_threads).unwrap()).ok();
    assert_eq!(pool.is_some(), specfleet_kernels::supported());
    let required = std::env::var_os("SPECFLEET_TEST_REQUIRE_FUSED").is_some();
    assert!(pool.is_some() || !required, "this machine cannot run the kernels, and their tests are required");
    pool
}

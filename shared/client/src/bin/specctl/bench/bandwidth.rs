//! How close plain decoding comes to what the memory gives.
//!
//! A step of one row reads every weight once and computes little with it, so on a CPU the memory sets its speed. A loop
//! that reads as many bytes with as many threads, in the same run, is the yardstick.

use std::num::NonZeroUsize;

use serde::Serialize;
use specfleet_client::v1::Identity;
use specfleet_kernels::{WorkerPool, bandwidth};

use crate::bench::cell::Cell;

/// The loop, set up like the verifier; or why it would say nothing.
#[derive(Debug)]
pub(super) enum ReadLoop {
    Comparable { pool: WorkerPool, n_bytes: u64 },
    Pointless(String),
}

/// Weights read by a plain step beside the read loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Weights {
    Compared(Comparison),
    Skipped { why: String },
}

/// Both bandwidths, in GB (10^9 bytes) per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Comparison {
    pub(super) threads: usize,
    /// The better of two runs, before and after the cell.
    pub(super) read_loop_gb_per_second: f64,
    pub(super) step_weight_bytes: u64,
    /// A whole plain step at one stream, and its forward pass alone.
    pub(super) step_ms: f64,
    pub(super) forward_ms: f64,
    pub(super) step_gb_per_second: f64,
    pub(super) forward_gb_per_second: f64,
    /// In percent of the read loop.
    pub(super) step_percent: f64,
    pub(super) forward_percent: f64,
}

/// Bytes that the loop reads at most: above this the caches do not matter any more.
const MOST_BYTES: u64 = 1 << 30;

impl ReadLoop {
    pub(super) fn new(endpoint: &str, identity: &Identity) -> Self {
        if let Some(why) = pointless(endpoint, identity) {
            return Self::Pointless(why.to_owned());
        }
        let n_bytes = identity.step_weight_bytes;
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let n_threads = NonZeroUsize::new(identity.compute_threads as usize).unwrap_or(NonZeroUsize::MIN).min(cores);
        match WorkerPool::new(n_threads) {
            Ok(pool) => Self::Comparable { pool, n_bytes },
            Err(error) => Self::Pointless(error.to_string()),
        }
    }

    /// Reads for a moment, well under a second; `None` where that would say nothing.
    pub(super) fn gb_per_second(&self) -> Option<f64> {
        match self {
            Self::Comparable { pool, n_bytes } => {
                let n_bytes = usize::try_from((*n_bytes).min(MOST_BYTES)).ok()?;
                Some(bandwidth::read_gb_per_second(pool, n_bytes))
            }
            Self::Pointless(_) => None,
        }
    }
}

impl Weights {
    /// Compares the plain side of `cell` with the loop as it was `before`, and as it is now.
    pub(super) fn new(read_loop: &ReadLoop, before: Option<f64>, cell: &Cell) -> Self {
        match (read_loop, before, read_loop.gb_per_second(), cell.plain_step) {
            (ReadLoop::Pointless(why), ..) => Self::Skipped { why: why.clone() },
            (ReadLoop::Comparable { pool, n_bytes }, Some(before), Some(after), Some(step)) => {
                let best = before.max(after);
                Self::Compared(Comparison::of(pool.n_threads(), *n_bytes, best, step.total_ms, step.verify_ms))
            }
            _ => Self::Skipped { why: "no plain step was measured".to_owned() },
        }
    }
}

impl Comparison {
    fn of(threads: usize, step_weight_bytes: u64, read_loop: f64, step_ms: f64, forward_ms: f64) -> Self {
        let gb_per_second = |millis: f64| step_weight_bytes as f64 / 1e6 / millis;
        Self {
            threads,
            read_loop_gb_per_second: read_loop,
            step_weight_bytes,
            step_ms,
            forward_ms,
            step_gb_per_second: gb_per_second(step_ms),
            forward_gb_per_second: gb_per_second(forward_ms),
            step_percent: 100.0 * gb_per_second(step_ms) / read_loop,
            forward_percent: 100.0 * gb_per_second(forward_ms) / read_loop,
        }
    }
}

/// Why the loop would say nothing about this target.
fn pointless(endpoint: &str, identity: &Identity) -> Option<&'static str> {
    if identity.step_weight_bytes == 0 {
        return Some("the target does not say how many bytes of weights a step reads");
    }
    if !is_loopback(endpoint) {
        return Some("the verifier may run on another machine");
    }
    (!identity.device.starts_with("cpu")).then_some("the target does not run on the CPU")
}

fn is_loopback(endpoint: &str) -> bool {
    let authority = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    ["localhost", "127.", "[::1]"].iter().any(|host| authority.starts_with(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(device: &str) -> Identity {
        Identity {
            device: device.to_owned(),
            step_weight_bytes: 270_000_000,
            compute_threads: 1,
            ..Identity::default()
        }
    }

    #[test]
    fn the_loop_is_only_run_where_it_means_something() {
        let here = "http://127.0.0.1:50051";
        assert_eq!(pointless(here, &identity("cpu (avx512-bf16)")), None);
        assert_eq!(pointless("localhost:50051", &identity("cpu")), None);
        for (endpoint, identity) in
            [("http://10.0.0.7:50051", identity("cpu")), (here, identity("cuda:0")), (here, Identity::default())]
        {
            assert!(pointless(endpoint, &identity).is_some(), "{endpoint} {identity:?}");
            assert_eq!(ReadLoop::new(endpoint, &identity).gb_per_second(), None);
        }
    }

    #[test]
    fn bandwidth_is_bytes_over_time() {
        let comparison = Comparison::of(2, 270_000_000, 50.0, 9.0, 6.75);
        assert!((comparison.step_gb_per_second - 30.0).abs() < 1e-9);
        assert!((comparison.step_percent - 60.0).abs() < 1e-9);
        assert!((comparison.forward_percent - 80.0).abs() < 1e-9);
    }
}

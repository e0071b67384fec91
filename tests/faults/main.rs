//! Faults that speculative decoding is known for, provoked. `docs/faults.md` lists them all, with the test for each or the
//! reason why it cannot occur; the tests here are those that need both services.
#![allow(clippy::unwrap_used)]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

mod accounts;
mod cost;
mod deadlines;
mod dear_masks;
mod draft_down;
mod drain;
mod ends;
mod health;
mod leaving;
mod message_limits;
mod page;
mod replicas;
mod soak;
mod support;
mod text;
mod traces;
mod transport;
mod verifier_dies;
mod vocabulary;

/// Counts what is in use, for the soak.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

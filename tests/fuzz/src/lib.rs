//! Weights come from strangers, proposals from another process, requests from anybody. A decoder that trusts what it reads
//! can be made to panic, to hang, or to take all memory by a length field alone. This crate attacks every decoder of the
//! project and asserts that none of this happens, and that what a decoder accepts keeps the promises of its type.
//!
//! - [`targets`] has one [`Target`] for each decoder: valid inputs, and a function that decodes and checks.
//! - [`campaign`] runs a target over inputs made from the valid ones by [`mutate`], within an [`Allowance`] of memory that
//!   [`memory`] enforces. The tests do that, in seconds; `SPECFLEET_TEST_LONG` does it for longer.
//! - `src/bin/guided.rs` hands the same targets to libFuzzer, which looks for inputs that reach new code.
//!
//! `docs/fuzzing.md` says how to run each.

pub mod call;
pub mod campaign;
pub mod dice;
pub mod memory;
pub mod mutate;
pub mod targets;

pub use memory::Allowance;

/// Whether a decoder took an input for a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did, and what it made of it was checked.
    Accepted,
    /// It said what is wrong with it.
    Refused,
}

impl Answer {
    /// What a result says.
    pub fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Accepted } else { Self::Refused }
    }
}

/// Decodes one input and checks what came of it; panics if a promise is broken.
pub type Decode = Box<dyn FnMut(&[u8]) -> Answer>;

/// A decoder under attack.
#[derive(Debug)]
pub struct Target {
    /// Names it on the command line.
    pub name: &'static str,
    /// The memory that it may take.
    pub allowance: Allowance,
    /// Inputs that it accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Sets up what the decoder needs; the result is called for each input.
    pub start: fn() -> Decode,
}

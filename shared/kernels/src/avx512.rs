//! The inner loops, in AVX-512 instructions.
//!
//! Functions that other modules call are safe in what the processor can do, because they ask for
//! an [`Isa`](crate::isa::Isa). Inside, the generic parts carry no `target_feature` of their own
//! (trait methods cannot): they are always inlined into a function that has it.

mod attend;
mod elements;
mod int8;
mod lanes;
mod multiply;
mod rows;
mod vector;

pub(crate) use attend::{MAX_QUERIES, Tiles, attend};
pub(crate) use int8::round_to_int8;
pub(crate) use lanes::Lanes;
pub(crate) use multiply::{Multiply, Product, multiply};
pub(crate) use rows::{read, rms_norm, round, swiglu};

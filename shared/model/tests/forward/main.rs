//! Whole models against the Python library, and against themselves.
//!
//! The checkpoints in `golden/` are tiny and random, with the logits that transformers computes for a few
//! sequences (`golden/make_checkpoints.py` writes both). `ways` are the orders in which a service may
//! compute a sequence: at once, in chunks, token by token, among other sequences, with rejected tokens in
//! between, after a reused prefix.
#![allow(clippy::unwrap_used)]

mod bits;
mod golden;
mod real;
mod refusals;
mod support;
mod ways;

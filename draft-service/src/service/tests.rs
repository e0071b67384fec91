//! The service as a verifier meets it: production code over gRPC in memory, with a scripted model behind it.
#![allow(clippy::unwrap_used)]

mod grammar;
mod harness;
mod lookup;
mod memory;
mod policy;
mod proposals;
mod rounds;
mod rules;

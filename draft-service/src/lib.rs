//! The draft side of specfleet: proposes tokens, says exactly what each was drawn from, and which model drew them.
//!
//! A verifier decides about every proposal, so that nothing here can make its text wrong; it can only make it slow. What
//! it must never do is to report a distribution that is not the one it drew from, or to withhold a token after drawing
//! it. Both bias the verifier's output without a sign, and the shape of this crate follows from them:
//!
//! ```text
//! gRPC stream ── service ── checks at the border ──┐   tokio
//!                                                  │   bounded channel
//!                                               engine ── one thread: batches sessions, knows limits and time
//!                                                  │
//!                              model ──────────────┴──────────── lookup
//!                 shape, truncate, quantise, draw,          what followed the last tokens
//!                 send the integers drawn from              when they last occurred
//! ```
//!
//! - [`Service`] is all of it without a port; [`run`] serves it.
//! - `engine` batches; a proposal may end early for anything known before a token is drawn, and for nothing after.
//! - `model` and `lookup` are the two ways of drafting; the service does not know which one it has.
//!
//! **Not here:** the target, acceptance, detokenising, anything that a user sees.

mod assemble;
pub mod config;
mod engine;
mod lookup;
mod model;
mod run;
pub mod service;
pub mod telemetry;

pub use assemble::assemble;
pub use config::{Cli, Config};
pub use run::run;
pub use service::{LookupOptions, Options, Service};

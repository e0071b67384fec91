//! The verifier side of specfleet: runs the target model, decides about draft tokens, and streams verified ones.
//!
//! Clients talk to this service only, and only what the target has verified ever leaves it. Drafts may be slow, wrong,
//! upgraded, cut off or absent: the text has the same distribution, it just comes at the speed of plain decoding.
//!
//! ```text
//! client ── api ── request ──┐  checked once           tokio
//!                            │  channel, bounded by permits ────────────────────
//!                         engine: one thread, owns the model, never awaits
//!                            │      who runs ── forward ── decide ── commit
//!                            │  bounded channels ───────────────────────────────
//! client ── api ── output ───┤  text of committed tokens                  tokio
//!  draft ──────── drafting ──┘  proposals in, committed tokens out
//! ```
//!
//! - [`Service`] is all of it without a port; [`run()`] serves it.
//! - `request` is the only place that doubts what a client sent, `drafting` the only one that doubts what a draft sent.
//! - `engine` is the heart; begin with the loop in `engine.rs` and the pass in `engine/step.rs`.
//!
//! **Not here:** the acceptance rule and the transforms (`specfleet-speculation`), tensors (`specfleet-model`), and any
//! way for an unverified token to reach a client.

mod api;
pub mod config;
#[cfg(feature = "controls")]
pub mod controls;
mod dialect;
mod drafting;
mod engine;
pub mod error;
mod output;
mod report;
mod request;
mod run;
mod service;
pub mod telemetry;
mod texts;
mod wire;

pub use api::{
    grpc::{GenerationStream, Grpc},
    openai::Http,
};
pub use config::Config;
pub use dialect::{Reasoning, ToolCalls};
pub use drafting::{NotAVersion, UntrustedDraft};
pub use run::run;
pub use service::{Error, Options, Service};

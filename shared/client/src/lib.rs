//! Text from a language model over the network, one verified piece at a time.
//!
//! A verifier streams what its target model wrote, and says of every token how it came about: proposed by a draft and
//! accepted, corrected, added as a bonus, or made by a plain step. This crate wraps that stream so that a caller deals
//! with three kinds of [`Event`], errors that say what to do, and nothing else:
//!
//! ```no_run
//! use futures::StreamExt;
//! use specfleet_client::{Client, Event, request};
//!
//! # async fn example() -> Result<(), specfleet_client::Error> {
//! let client = Client::connect("http://127.0.0.1:50051").await?;
//! let mut generation = client.generate(request::chat("Name three rivers.")).await?;
//! while let Some(event) = generation.next().await {
//!     match event? {
//!         Event::Started(started) => eprintln!("{} prompt tokens", started.prompt_tokens),
//!         Event::Committed(committed) => committed.tokens.iter().for_each(|token| print!("{}", token.text)),
//!         Event::Finished(finished) => eprintln!("{:?}", finished.reason()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! - A [`Client`] is a cheap clone over one connection; requests on clones run side by side.
//! - Dropping a [`Generation`] cancels the request: the verifier stops and frees its memory.
//! - A request for `n` continuations interleaves them: every event says by its index which it is about, and
//!   [`Generation::answers`] sorts them.
//! - A [`Generation`] that ends without [`Event::Finished`] always yields an [`Error`] first, so half an answer is never
//!   taken for a whole one.
//! - Messages are those of the wire contract, re-exported as [`v1`]; its comments are the reference for every field.
//!
//! The command-line tool `specctl` in this package is built on it.

mod client;
mod error;
mod generation;
pub mod request;

pub use client::{Client, DraftClient};
pub use error::{Error, Refusal, Service, Violation};
pub use generation::{Answer, Event, Generation};
pub use specfleet_protocol::v1;

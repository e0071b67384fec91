//! The client library and `specctl` against a verifier that plays a script: what a user sees, byte for byte.
#![allow(clippy::unwrap_used)]

mod audit;
mod bench;
mod chat;
mod drafts;
mod fake;
mod generate;
mod identity;
mod library;
mod specctl;

//! The programs as a user runs them, with the real models.
#![allow(clippy::unwrap_used)]

mod audit;
mod bad_requests;
mod bad_starts;
mod clients;
mod failures;
mod http;
mod seeds;
mod soak;
mod text;

//! The pair in one process.
#![allow(clippy::unwrap_used)]

mod acceptance;
mod loopback;

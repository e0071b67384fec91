//! Fixtures of the end-to-end tests.
//!
//! - [`binaries`] runs the programs as a user does, with the real models.
//! - [`in_process`] runs the pair in one process, over pipes instead of sockets.
//!
//! A fixture panics when it cannot do its part: a test that cannot be set up has failed.
#![allow(clippy::unwrap_used)]

pub mod binaries;
pub mod in_process;

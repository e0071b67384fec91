//! Fixtures of the end-to-end tests.
//!
//! - [`binaries`] runs the programs as a user does, with the real models.
//! - [`chi_square`] judges whether a sample has a law.
//! - [`drafts`] are drafts of every kind, to be chosen from by pin.
//! - [`in_process`] runs the pair in one process, over pipes instead of sockets.
//! - [`known_text`] makes drafts that know what is going to be committed.
//! - [`lying_draft`] is a draft that draws from one distribution and reports another.
//! - [`memory`] reads how much a process holds.
//! - [`metrics`] reads what a service has counted.
//! - [`outcome`] runs a request to its end.
//! - [`plain`] decodes greedily without any service.
//! - [`proxy`] is a network that breaks on command.
//! - [`real_models`] loads the real models into the test's process.
//! - [`recording`] notes the bits of every row of logits.
//! - [`report`] prints what was measured.
//! - [`scripted_pair`] is the pair in one process with models that are tables.
//! - [`traffic`] is many clients at a time, of which a part leaves.
//!
//! A fixture panics when it cannot do its part: a test that cannot be set up has failed.
#![allow(clippy::unwrap_used)]

pub mod binaries;
pub mod chi_square;
pub mod drafts;
pub mod http;
pub mod in_process;
pub mod known_text;
pub mod lying_draft;
pub mod memory;
pub mod metrics;
pub mod outcome;
pub mod plain;
pub mod proxy;
pub mod real_models;
pub mod recording;
pub mod report;
pub mod scripted_pair;
pub mod traffic;

//! The verifier over real gRPC and HTTP, in one process: scripted target, scripted drafts that can misbehave in every way.
//!
//! Tests are named after what a user would notice. Each fixture checks by itself, at its end, that nothing is left behind:
//! no running request, no KV block, no draft session.
#![allow(clippy::unwrap_used)]

mod acceptance;
mod bad_numbers;
mod choices;
mod crowd;
mod drafts;
mod ends;
mod forms;
mod greedy;
mod logprobs;
mod openai;
mod resting;
mod sampling;
mod serving;
mod stops;
mod support;
mod unread;

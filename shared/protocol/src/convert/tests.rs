#![allow(clippy::unwrap_used)]
mod properties;
mod refusals;

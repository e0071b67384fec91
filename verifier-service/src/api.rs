//! The faces of the service towards clients.
//!
//! Each turns its own messages into the one form of request that [`crate::request`] checks, and the engine's events into
//! its own answers. What lies between, from the check to the engine, is the same for all of them and stands in
//! [`admit`].

mod admit;
pub(crate) mod grpc;
pub(crate) mod openai;

//! Two services that are built, deployed and upgraded apart must still agree on every bit of a proposal: which tokens,
//! drawn from which numbers, by which model, after which prefix. This crate is that agreement in Rust.
//!
//! - [`v1`] is generated from `proto/specfleet/v1`, where the rules of each message and stream are written down.
//! - [`convert`] is the border: what a peer sent becomes a type of `specfleet-speculation` or is refused with a reason.
//!   Nothing behind it checks again, and nothing before it is trusted.
//! - [`PrefixDigest`] is how both sides know that they speak about the same committed prefix.
//! - [`status`] is the one table from failures to gRPC statuses, read by both services and by clients.
//! - [`limits`] works out message sizes before the first long message does.
//! - [`channel`] holds connections that are tuned for small messages and quick detection of dead peers.
//!
//! **Not here:** tensors, model files, sessions, retries. A message that parses is not yet a proposal that may be used:
//! comparing its version id and prefix with what is pinned and committed is the verifier's decision.

pub mod channel;
pub mod convert;
mod digest;
pub mod limits;
pub mod status;

pub use digest::PrefixDigest;

/// Messages, clients and servers generated from `proto/specfleet/v1`.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("specfleet.v1");
}

/// The encoded `google.protobuf.FileDescriptorSet` of [`v1`], for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/specfleet_descriptor.bin"));

//! The faces of the service towards clients.

pub(crate) mod grpc;

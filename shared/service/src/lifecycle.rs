//! A process is starting, ready, draining, gone. Probes, the server and the engine must agree on which.

pub mod load;
mod readiness;
mod shutdown;

pub use readiness::Readiness;
pub(crate) use readiness::State;
pub use shutdown::Shutdown;

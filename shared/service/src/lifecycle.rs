//! A process is starting, ready, stuck, draining, gone. Probes, the server and the engine must agree on which.

pub mod load;
mod progress;
mod readiness;
mod shutdown;

pub use progress::Progress;
pub use readiness::Readiness;
pub(crate) use readiness::State;
pub use shutdown::Shutdown;

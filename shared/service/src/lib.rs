//! A service that computes well can still be a bad neighbour: it answers health checks before it can answer requests,
//! drops streams when it is replaced, hides a wrong flag behind a default, or leaves a trace that ends at its door.
//! Both services share this crate so that they behave alike in all of it.
//!
//! - [`args`]: flags, each also an environment variable; [`Problems`] reports every bad one at once.
//! - [`Telemetry`]: logs, traces and metrics, started once in `main` and flushed at the end. [`Metrics`] alone for tests.
//! - [`propagation`]: one trace over both services.
//! - [`Readiness`] and [`Shutdown`]: what a process is ready for, and how it ends; [`load::load`] can be ended too.
//!   [`Progress`] is how a thread that hangs is noticed.
//! - [`GrpcServer`]: a gRPC server with health, reflection, deadlines and drain; [`Drain`]: the last of these, for servers
//!   that speak something else; [`MetricsPage`]: the port for probes and scrapers.
//! - [`identity`]: who serves, on the wire.
//! - [`openmp`] and [`with_causes`]: the first and the last thing that a `main` does.
//!
//! **Not here:** anything that knows what a proposal or a token is.

pub mod args;
mod causes;
pub mod identity;
mod lifecycle;
mod metrics_page;
pub mod openmp;
pub mod problems;
pub mod propagation;
pub mod serve;
pub mod telemetry;

pub use args::{ListenArgs, ModelArgs, TelemetryArgs};
pub use causes::with_causes;
pub use lifecycle::{Progress, Readiness, Shutdown, load};
pub use metrics_page::MetricsPage;
pub use problems::Problems;
pub use serve::{Deadline, Drain, GrpcServer, bind};
pub use telemetry::{Metrics, Telemetry};

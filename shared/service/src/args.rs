//! Flags that both services have. Each is also an environment variable; the help text says the unit and why the default
//! is what it is.

mod listen;
mod model;
mod telemetry;

pub use listen::ListenArgs;
pub use model::ModelArgs;
pub use telemetry::{LogFormat, TelemetryArgs};

#[cfg(test)]
mod tests;

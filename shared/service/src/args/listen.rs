use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::Args;

use crate::Problems;

/// Any step could take so long.
const SHORTEST_STALL: Duration = Duration::from_secs(1);

/// Where a service listens, when it counts as stuck, and how it leaves. The type's numbers are the service's default ports.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Listening")]
pub struct ListenArgs<const GRPC_PORT: u16, const METRICS_PORT: u16> {
    /// Address for gRPC. Loopback by default, because calls are neither encrypted nor authenticated; 0.0.0.0:PORT
    /// serves the network.
    #[arg(long, env = Self::LISTEN_ENV, value_name = "IP:PORT", default_value_t = loopback(GRPC_PORT))]
    pub listen: SocketAddr,

    /// Address for the metrics page and HTTP probes: /metrics, /health, /ready. A port of its own, so that scrapers need
    /// no access to the API.
    #[arg(long, env = Self::METRICS_LISTEN_ENV, value_name = "IP:PORT", default_value_t = loopback(METRICS_PORT))]
    pub metrics_listen: SocketAddr,

    /// How long running requests may go on after SIGTERM or Ctrl-C, for example 30s or 2m. Give the orchestrator's
    /// grace period some seconds more: Kubernetes kills after 30s unless told otherwise. A second signal ends the process at
    /// once.
    #[arg(long, env = "SPECFLEET_DRAIN_LIMIT", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub drain_limit: Duration,

    /// How long one step of the engine may take before the service reports that it is not ready, for example 30s. It is
    /// ready again when the engine moves. More than the longest step: with a large model on a CPU that is a chunk of a
    /// prompt and can take seconds.
    #[arg(long, env = "SPECFLEET_STALL_LIMIT", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub stall_limit: Duration,
}

impl<const GRPC_PORT: u16, const METRICS_PORT: u16> ListenArgs<GRPC_PORT, METRICS_PORT> {
    /// Flag of [`listen`](Self::listen), for error texts.
    pub const LISTEN_FLAG: &'static str = "--listen";
    /// Environment variable of [`listen`](Self::listen).
    pub const LISTEN_ENV: &'static str = "SPECFLEET_LISTEN";
    /// Flag of [`metrics_listen`](Self::metrics_listen), for error texts.
    pub const METRICS_LISTEN_FLAG: &'static str = "--metrics-listen";
    /// Environment variable of [`metrics_listen`](Self::metrics_listen).
    pub const METRICS_LISTEN_ENV: &'static str = "SPECFLEET_METRICS_LISTEN";

    /// Adds what cannot work to `problems`.
    pub fn validate(&self, problems: &mut Problems) {
        problems.check(
            Self::METRICS_LISTEN_FLAG,
            self.listen != self.metrics_listen || self.listen.port() == 0,
            || format!("is {}, which is also the address for gRPC", self.metrics_listen),
        );
        problems.check("--stall-limit", self.stall_limit >= SHORTEST_STALL, || {
            format!("is {:?}, must be at least {SHORTEST_STALL:?}", self.stall_limit)
        });
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

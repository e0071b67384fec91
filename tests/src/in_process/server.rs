//! A gRPC server without a port.

use std::convert::Infallible;

use specfleet_protocol::channel;
use specfleet_service::{GrpcServer, Metrics, Readiness, Shutdown};
use tonic::{
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
    server::NamedService,
    transport::Channel,
};

/// What a gRPC server serves.
pub trait GrpcService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> GrpcService for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Serves until it is dropped.
pub(super) struct Server {
    /// The way to it.
    pub(super) channel: Channel,
    shutdown: Shutdown,
}

impl Server {
    pub(super) fn start(service: impl GrpcService, metrics: &Metrics) -> Self {
        let (channel, incoming) = channel::in_memory();
        let readiness = Readiness::new();
        readiness.set_ready();
        // No time to drain: who ends a server in a test wants to see what its clients do about it.
        let shutdown = Shutdown::new(std::time::Duration::ZERO);
        let server = GrpcServer::new(readiness, shutdown.clone(), metrics).add_service(service);
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("the server runs") });
        Self { channel, shutdown }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

//! A gRPC server without a port.

use specfleet_protocol::channel;
use specfleet_service::{GrpcServer, Metrics, Readiness, Shutdown};
use tonic::transport::Channel;

/// Serves until it is dropped.
pub(super) struct Server {
    /// The way to it.
    pub(super) channel: Channel,
    shutdown: Shutdown,
}

impl Server {
    pub(super) fn start<S>(service: S, metrics: &Metrics) -> Self
    where
        S: tonic::codegen::Service<
                tonic::codegen::http::Request<tonic::body::Body>,
                Response = tonic::codegen::http::Response<tonic::body::Body>,
                Error = std::convert::Infallible,
            > + tonic::server::NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send,
    {
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

//! A tonic server with everything around a service that operators and tools expect.
//!
//! A request passes, from the outside in:
//!
//! 1. **span and duration** ([`ServerLayer`]): outermost, so that what the layers below refuse or cut short is seen too,
//!    with the status that the caller got;
//! 2. **lifetime** (`lifetime.rs`): refuses while draining and ends calls at their deadline. Below the span so that it
//!    can end a call whose handler never would, above the routes so that no handler has to know;
//! 3. the routes: services, health, reflection.
//!
//! Compression is not among them: proposals are a few hundred bytes of nearly random integers. Message-size limits belong
//! to each service (`max_decoding_message_size`), because only it knows its vocabulary.

use std::{io, net::SocketAddr, time::Duration};

use futures::Stream;
use http::{Request, Response};
use socket2::SockRef;
use specfleet_protocol::FILE_DESCRIPTOR_SET;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tonic::{
    body::Body,
    server::NamedService,
    service::Routes,
    transport::{
        Server,
        server::{Connected, TcpIncoming},
    },
};
use tower::Service;

use lifetime::LifetimeLayer;

use crate::{Metrics, Readiness, Shutdown, propagation::ServerLayer};

mod drain;
mod health;
mod lifetime;
mod timeout;

pub use drain::Drain;
pub use timeout::Deadline;

/// Silence after which a peer is asked for a sign of life, so that the memory of a vanished one is freed soon.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long it may take to give one. Generous: its cores may all be busy with a long prefill.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take nothing of what it is sent. What it has left unread is memory that nobody else can have. A
/// connection is closed after it, see [`bind`]; streams of one that lives on are for their services to watch.
pub const UNTAKEN_TIMEOUT: Duration = Duration::from_secs(60);
/// What waits to be sent before a connection takes no more. The system alone would let megabytes wait, and ask for more when
/// most of them are gone.
pub const UNSENT_BYTES: u32 = 128 << 10;

/// Why a server did not start or broke off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened at.
    #[error("cannot listen at {address} ({source}); choose another address with {flag} or {env}{}", hint(source))]
    Bind {
        /// As configured.
        address: SocketAddr,
        /// The flag that chooses it.
        flag: &'static str,
        /// The environment variable that chooses it.
        env: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The service descriptors cannot be reflected.
    #[error("cannot offer reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The transport broke off.
    #[error("the gRPC server broke off: {0}")]
    Transport(#[from] tonic::transport::Error),
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => ", or stop the process that has it",
        _ => "",
    }
}

/// Listens at `address`. The flag and environment variable that chose it are for the error text. A connection whose peer
/// takes nothing for [`UNTAKEN_TIMEOUT`], of what it is sent, is closed by the system; and it asks for more when less than
/// [`UNSENT_BYTES`] wait to be sent, so that a peer that takes little at a time is seen to take it.
///
/// # Errors
/// [`Error::Bind`].
pub async fn bind(address: SocketAddr, flag: &'static str, env: &'static str) -> Result<TcpListener, Error> {
    let listen = async || {
        let listener = TcpListener::bind(address).await?;
        // Connections inherit it.
        let socket = SockRef::from(&listener);
        socket.set_tcp_user_timeout(Some(UNTAKEN_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
        Ok(listener)
    };
    listen().await.map_err(|source| Error::Bind { address, flag, env, source })
}

/// Services on one port, with health, reflection, deadlines, drain and telemetry.
#[derive(Debug)]
pub struct GrpcServer {
    routes: Routes,
    service_names: Vec<&'static str>,
    readiness: Readiness,
    shutdown: Shutdown,
    layer: ServerLayer,
}

impl GrpcServer {
    /// Health follows `readiness`; the server leaves with `shutdown`; durations go to `metrics`.
    pub fn new(readiness: Readiness, shutdown: Shutdown, metrics: &Metrics) -> Self {
        Self {
            routes: Routes::default(),
            service_names: Vec::new(),
            readiness,
            shutdown,
            layer: ServerLayer::new(metrics),
        }
    }

    /// Adds a service, with its message-size limits set.
    #[must_use]
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = std::convert::Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.service_names.push(S::NAME);
        self.routes = self.routes.add_service(service);
        self
    }

    /// Serves TCP connections until shutdown has drained.
    ///
    /// # Errors
    /// [`Error::Reflection`] and [`Error::Transport`].
    pub async fn serve(self, listener: TcpListener) -> Result<(), Error> {
        // Proposals and committed tokens are small and awaited: never hold them back to fill a packet.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        self.serve_with_incoming(incoming).await
    }

    /// Serves the given connections, for example in-memory ones, until shutdown has drained.
    ///
    /// # Errors
    /// [`Error::Reflection`] and [`Error::Transport`].
    pub async fn serve_with_incoming<I, Io>(self, incoming: I) -> Result<(), Error>
    where
        I: Stream<Item = io::Result<Io>>,
        Io: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (health, _following) = health::service(&self.readiness, &self.service_names).await;
        let drain = Drain::new(self.readiness, self.shutdown.clone());
        let shutdown = self.shutdown;
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .layer(self.layer)
            .layer(LifetimeLayer::new(drain.clone()))
            .add_routes(self.routes)
            .add_service(health)
            .add_service(reflection().build_v1()?)
            // grpcurl before 1.9 and the Python tools know only this one.
            .add_service(reflection().build_v1alpha()?)
            .serve_with_incoming_shutdown(incoming, async move { shutdown.draining().await });
        tokio::select! {
            result = server => Ok(result?),
            () = drain.run() => Ok(()),
        }
    }
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Whether a path belongs to gRPC's own services: probes and tools, that get no spans and do not hold up a drain.
pub(crate) fn is_infrastructure(path: &str) -> bool {
    path.starts_with("/grpc.")
}

#[cfg(test)]
mod tests;

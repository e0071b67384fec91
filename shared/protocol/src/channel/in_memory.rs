//! The pair in one process: the same gRPC, without a socket. For tests, and to measure what the network costs.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::{io::DuplexStream, sync::mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{ChannelOptions, tuned};

/// Bytes in flight per direction before a writer waits: a socket buffer's worth.
const PIPE_BYTES: usize = 256 << 10;
/// Connections that may wait to be accepted.
const BACKLOG: usize = 16;

/// The server's end of [`in_memory`]: a stream of connections, for tonic's `serve_with_incoming`.
pub type Incoming = ReceiverStream<io::Result<DuplexStream>>;

/// A channel and the connections that it will make. Each (re)connect is a new pair of pipes; once the [`Incoming`] is
/// dropped, connecting fails as it does at a closed port.
pub fn in_memory() -> (Channel, Incoming) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let connector = tower::service_fn(move |_: Uri| {
        let sender = sender.clone();
        async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            sender.send(Ok(theirs)).await.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok::<_, io::Error>(TokioIo::new(ours))
        }
    });
    let endpoint = tuned(Endpoint::from_static("http://in-memory"), &ChannelOptions::default());
    let channel = endpoint.connect_with_connector_lazy(connector);
    (channel, ReceiverStream::new(receiver))
}

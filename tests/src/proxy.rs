//! A network that breaks on command: a TCP proxy that can be cut, frozen and mended, in the middle of a message too.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// Bytes that move at a time.
const CHUNK: usize = 4096;

/// What the network does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Whole,
    /// Connections are accepted and stay, and nothing moves.
    Frozen,
    /// Connections end, and new ones end at once.
    Cut,
}

/// A way to a server, with an address of its own. Ends with all its connections when dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to.
    pub address: SocketAddr,
    network: Arc<Network>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Network {
    state: watch::Sender<State>,
    /// Bytes that the server may still send; then the network is cut.
    budget: AtomicUsize,
    n_connections: AtomicUsize,
}

impl Proxy {
    /// To the server at `upstream`, which need not be there yet.
    pub async fn start(upstream: SocketAddr) -> Self {
        Self::serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port"), upstream)
    }

    /// The same at an address that somebody else may have to leave first.
    pub async fn start_at(address: SocketAddr, upstream: SocketAddr) -> Self {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return Self::serve(listener, upstream),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => tokio::task::yield_now().await,
                Err(error) => panic!("cannot listen at {address}: {error}"),
            }
        }
    }

    fn serve(listener: TcpListener, upstream: SocketAddr) -> Self {
        let address = listener.local_addr().expect("a bound listener has an address");
        let network = Arc::new(Network {
            state: watch::Sender::new(State::Whole),
            budget: AtomicUsize::new(usize::MAX),
            n_connections: AtomicUsize::new(0),
        });
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, upstream, network.clone())));
        Self { address, network, _accepting: accepting }
    }

    /// As a process that was killed: every connection ends, and new ones do at once.
    pub fn cut(&self) {
        self.network.state.send_replace(State::Cut);
    }

    /// The same after the server has sent so many bytes more.
    pub fn cut_after(&self, n_bytes: usize) {
        self.network.budget.store(n_bytes, SeqCst);
    }

    /// As a host that is gone without a word: connections stay, new ones are accepted, and nothing moves.
    pub fn freeze(&self) {
        self.network.state.send_replace(State::Frozen);
    }

    /// Makes it whole again.
    pub fn mend(&self) {
        self.network.budget.store(usize::MAX, SeqCst);
        self.network.state.send_replace(State::Whole);
    }

    /// Whether it is cut.
    pub fn is_cut(&self) -> bool {
        *self.network.state.borrow() == State::Cut
    }

    /// Connections accepted so far.
    pub fn n_connections(&self) -> usize {
        self.network.n_connections.load(SeqCst)
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, network: Arc<Network>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        network.n_connections.fetch_add(1, SeqCst);
        connections.spawn(connect(client, upstream, network.clone()));
    }
}

async fn connect(client: TcpStream, upstream: SocketAddr, network: Arc<Network>) {
    let mut states = network.state.subscribe();
    if states.wait_for(|state| *state != State::Frozen).await.is_ok_and(|state| *state == State::Cut) {
        return;
    }
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    for stream in [&client, &server] {
        // Not to be slower than the direct way.
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // The end of one direction is the end of the connection.
    tokio::select! {
        () = carry(from_client, to_server, &network, |_| usize::MAX) => {}
        () = carry(from_server, to_client, &network, spend) => {}
    }
}

/// Moves bytes for as long as the network lets it. `allow` says how many of them may pass.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    network: &Network,
    allow: impl Fn((&Network, usize)) -> usize,
) {
    let mut states = network.state.subscribe();
    let mut chunk = vec![0; CHUNK];
    loop {
        let n_read = tokio::select! {
            read = from.read(&mut chunk) => read.unwrap_or(0),
            _ = states.wait_for(|state| *state == State::Cut) => return,
        };
        // What was read while the network froze waits in it.
        match states.wait_for(|state| *state != State::Frozen).await {
            Ok(state) if *state == State::Whole => {}
            _ => return,
        }
        let n_allowed = allow((network, n_read)).min(n_read);
        if n_read == 0 || to.write_all(&chunk[..n_allowed]).await.is_err() || n_allowed < n_read {
            return;
        }
    }
}

/// Takes from the budget; an overdrawn one cuts the network.
fn spend((network, n_bytes): (&Network, usize)) -> usize {
    let before = network.budget.fetch_update(SeqCst, SeqCst, |budget| match budget {
        usize::MAX => Some(usize::MAX),
        budget => Some(budget.saturating_sub(n_bytes)),
    });
    let before = before.unwrap_or(usize::MAX);
    if before < n_bytes {
        network.state.send_replace(State::Cut);
    }
    before
}

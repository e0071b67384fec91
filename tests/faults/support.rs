//! Services on ports of loopback, with everything that an operator has in hand.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use specfleet_client::{
    Client,
    v1::{DraftState, verifier_service_client::VerifierServiceClient},
};
use specfleet_model::{load::Loaded, scripted::ScriptedModel};
use specfleet_protocol::channel::{self, ChannelOptions};
use specfleet_service::{GrpcServer, Metrics, MetricsPage, Progress, Readiness, Shutdown};
use specfleet_speculation::TokenId;
use specfleet_tests::{
    in_process::GrpcService,
    metrics,
    scripted_pair::{END, N_VOCAB, loaded, settings},
};
use specfleet_verifier_service::Http;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// How long a state that must come may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long an engine may hang before these services say so.
pub(crate) const STALL_LIMIT: Duration = Duration::from_millis(400);

/// One service. Dropping it leaves it to the end of the runtime.
pub(crate) struct Served {
    /// For gRPC.
    pub(crate) address: SocketAddr,
    /// For HTTP, of a verifier.
    http: Option<SocketAddr>,
    /// For probes and scrapers.
    pub(crate) page: SocketAddr,
    pub(crate) shutdown: Shutdown,
    pub(crate) metrics: Metrics,
    /// Resolves when the service has ended, page and engine included.
    pub(crate) serving: JoinHandle<()>,
}

/// A draft-service over a scripted model.
pub(crate) async fn serve_draft(model: ScriptedModel) -> Served {
    let metrics = Metrics::local().unwrap();
    let Loaded { model, tokenizer, label, .. } = loaded(model);
    let options = settings().draft;
    let service =
        specfleet_draft_service::Service::from_model(model, &tokenizer, &label, options, &metrics.meter()).unwrap();
    let (grpc, progress) = (service.grpc(), service.progress().clone());
    let life = (Readiness::new(), Shutdown::new(Duration::ZERO));
    serve(grpc, progress, metrics, life, async { drop(service) }).await
}

/// A verifier-service over a scripted model, with drafts at these addresses.
pub(crate) async fn serve_verifier(
    model: ScriptedModel,
    drafts: &[SocketAddr],
    options: specfleet_verifier_service::Options,
    drain_limit: Duration,
) -> Served {
    let metrics = Metrics::local().unwrap();
    let drafts = drafts.iter().map(|address| (address.to_string(), connect_lazy(*address))).collect();
    let service = specfleet_verifier_service::Service::start(loaded(model), drafts, options, &metrics.meter()).unwrap();
    let (grpc, progress) = (service.grpc(), service.progress().clone());
    let (readiness, shutdown) = (Readiness::new(), Shutdown::new(drain_limit));
    let http = Http::new(&metrics, readiness.clone(), shutdown.clone());
    http.open(&service);
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(http.serve(listener));
    let end = async {
        serving.await.unwrap().unwrap();
        service.stop().await;
    };
    let served = serve(grpc, progress, metrics, (readiness, shutdown), end).await;
    Served { http: Some(address), ..served }
}

async fn serve(
    grpc: impl GrpcService,
    progress: Progress,
    metrics: Metrics,
    (readiness, shutdown): (Readiness, Shutdown),
    end: impl Future<Output = ()> + Send + 'static,
) -> Served {
    let [listener, page_listener] = [listen().await, listen().await];
    let [address, page] = [&listener, &page_listener].map(|listener| listener.local_addr().unwrap());
    let page_ends = CancellationToken::new();
    let serving_page = tokio::spawn(
        MetricsPage::new(&metrics, readiness.clone()).serve(page_listener, page_ends.clone().cancelled_owned()),
    );
    readiness.set_ready();
    let watching = tokio::spawn(progress.watch(readiness.clone(), STALL_LIMIT));
    let server = GrpcServer::new(readiness, shutdown.clone(), &metrics).add_service(grpc);
    let serving = tokio::spawn(async move {
        server.serve(listener).await.unwrap();
        watching.abort();
        end.await;
        page_ends.cancel();
        serving_page.await.unwrap().unwrap();
    });
    Served { address, http: None, page, shutdown, metrics, serving }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// As the services connect to each other.
pub(crate) fn connect_lazy(address: SocketAddr) -> Channel {
    channel::connect_lazy(&address.to_string(), &ChannelOptions::default()).unwrap()
}

impl Served {
    /// A verifier's address for HTTP.
    pub(crate) fn http(&self) -> SocketAddr {
        self.http.unwrap()
    }

    /// Our client of a verifier.
    pub(crate) fn client(&self) -> Client {
        Client::from_channel(connect_lazy(self.address), self.address.to_string())
    }

    /// Anybody's client of a verifier.
    pub(crate) fn raw_client(&self) -> VerifierServiceClient<Channel> {
        VerifierServiceClient::new(connect_lazy(self.address))
    }

    /// See [`metrics::value`].
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        metrics::value(&self.metrics, name, label)
    }

    /// Waits until the first draft of a verifier is in this state.
    pub(crate) async fn await_draft(&self, state: DraftState) {
        let client = self.client();
        until(&format!("the draft is {state:?}"), async || {
            client.identity().await.is_ok_and(|identity| identity.drafts[0].state() == state)
        })
        .await;
    }

    /// Waits until nothing of any request is left in a verifier.
    pub(crate) async fn await_idle(&self) {
        let client = self.client();
        until("nothing is left of any request", async || {
            let sessions = client.identity().await.unwrap().drafts.iter().map(|draft| draft.open_sessions).sum::<u32>();
            let left = ["running_requests", "waiting_requests", "kv_blocks_used"];
            sessions == 0 && left.iter().all(|gauge| self.metric(&format!("specfleet_verifier_{gauge}"), "") == 0.0)
        })
        .await;
    }

    /// Status line of a page for probes.
    pub(crate) async fn probe(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.page).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: page\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }
}

/// Waits until a draft-service holds nothing for anybody.
pub(crate) async fn await_idle_draft(metrics: &Metrics) {
    until("the draft holds nothing", async || {
        let held = ["specfleet_draft_sessions_open", "specfleet_draft_memory_tokens"];
        held.iter().all(|gauge| metrics::value(metrics, gauge, "") == 0.0)
    })
    .await;
}

/// Waits until something holds that must come to hold.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "never came: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// A continuation that depends on every token of the prefix, never ends, and has no short cycle: whatever is lost, doubled
/// or taken from another request changes all that follows.
pub(crate) fn winding(prefix: &[TokenId]) -> TokenId {
    let mix =
        |hash: u64, token: &TokenId| (hash ^ u64::from(*token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    (prefix.iter().fold(17, mix) % u64::from(END)) as TokenId
}

/// What plain decoding of `next` yields.
pub(crate) fn plain(next: impl Fn(&[TokenId]) -> TokenId, prompt: &[TokenId], n_tokens: usize) -> Vec<TokenId> {
    let mut prefix = prompt.to_vec();
    for _ in 0..n_tokens {
        prefix.push(next(&prefix));
    }
    prefix.split_off(prompt.len())
}

/// A model that leaves no choice.
pub(crate) fn certain(next: impl Fn(&[TokenId]) -> TokenId + Send + 'static) -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, move |prefix| {
        let mut logits = vec![-1e4; N_VOCAB];
        logits[next(prefix) as usize] = 0.0;
        logits
    })
}

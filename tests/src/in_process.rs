//! The pair in one process: the same services and the same gRPC, over pipes in memory instead of sockets.

use std::{path::Path, time::Duration};

use specfleet_client::{Client, v1::DraftState};
use specfleet_model::load::{Dtype, LoadOptions, Loaded, load};
use specfleet_protocol::channel;
use specfleet_service::{GrpcServer, Metrics, Readiness, Shutdown};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

/// How long the verifier may take to find its draft.
const READY_LIMIT: Duration = Duration::from_secs(10);

/// What a verifier runs with in these tests: the program's defaults.
pub fn verifier_options() -> specfleet_verifier_service::Options {
    specfleet_verifier_service::Options {
        max_sequences: 64,
        max_queue: 256,
        step_tokens: 128,
        verify_rows: 6,
        draft_length: 5,
        max_draft_length: 8,
        draft_wait: Duration::from_millis(30),
    }
}

/// A pair that lives as long as this value.
pub struct Pair {
    /// Talks to the verifier.
    pub client: Client,
    shutdown: Shutdown,
}

impl Pair {
    /// A pair over two models that are loaded already.
    pub async fn start(target: Loaded, draft: Loaded) -> Self {
        let metrics = Metrics::local().expect("a meter provider");
        let shutdown = Shutdown::new(Duration::ZERO);
        let draft = specfleet_draft_service::Service::from_model(
            draft.model,
            &draft.tokenizer,
            &draft.label,
            specfleet_draft_service::Options::default(),
            &metrics.meter(),
        )
        .expect("the draft service starts");
        let to_draft = serve(draft.grpc(), &shutdown, &metrics);
        let drafts = vec![("in memory".to_owned(), to_draft)];
        let verifier = specfleet_verifier_service::Service::start(target, drafts, verifier_options(), &metrics.meter())
            .expect("the verifier starts");
        let client = Client::from_channel(serve(verifier.grpc(), &shutdown, &metrics), "in memory");
        let pair = Self { client, shutdown };
        pair.wait_for_draft().await;
        pair
    }

    /// A pair over two checkpoints.
    pub async fn load(target: &Path, draft: &Path, draft_dtype: Dtype) -> Self {
        let loaded = |path, dtype| {
            let options = LoadOptions { dtype, ..LoadOptions::default() };
            load(path, &options).unwrap_or_else(|error| panic!("cannot load a model: {error}"))
        };
        Self::start(loaded(target, Dtype::default()), loaded(draft, draft_dtype)).await
    }

    async fn wait_for_draft(&self) {
        let limit = Instant::now() + READY_LIMIT;
        loop {
            let identity = self.client.identity().await.expect("the verifier answers");
            if identity.drafts.iter().all(|draft| draft.state() == DraftState::Ready) {
                return;
            }
            assert!(Instant::now() < limit, "the draft is not ready: {:?}", identity.drafts);
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.shutdown.begin();
    }
}

/// Serves a gRPC service in memory and returns the way to it.
fn serve<S>(service: S, shutdown: &Shutdown, metrics: &Metrics) -> Channel
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
    let server = GrpcServer::new(readiness, shutdown.clone(), metrics).add_service(service);
    tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("the server runs") });
    channel
}

//! The verifier-service in memory.

use std::time::Duration;

use specfleet_client::{Client, v1::DraftState};
use specfleet_model::load::Loaded;
use specfleet_service::Metrics;
use specfleet_verifier_service::{Error, Options, Service};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::server::Server;
use crate::metrics;

/// How long a state that must come may take: long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A verifier-service. Dropping it ends its requests.
pub struct Verifier {
    /// Talks to it.
    pub client: Client,
    /// What it counts.
    pub metrics: Metrics,
    _server: Server,
}

impl Verifier {
    /// A verifier over a model and any drafts, each with a name for messages.
    pub fn start(target: Loaded, drafts: Vec<(String, Channel)>, options: Options) -> Self {
        Self::serve(|metrics| Service::start(target, drafts, options, &metrics.meter()))
    }

    /// A verifier that is started in the caller's way.
    pub fn serve(start: impl FnOnce(&Metrics) -> Result<Service, Error>) -> Self {
        let metrics = Metrics::local().expect("a meter provider");
        let service = start(&metrics).expect("the verifier starts");
        let server = Server::start(service.grpc(), &metrics);
        Self { client: Client::from_channel(server.channel.clone(), "in memory"), metrics, _server: server }
    }

    /// Waits until it can use all of its drafts.
    pub async fn wait_for_drafts(&self) {
        self.until("every draft is ready", async || {
            let identity = self.client.identity().await.expect("the verifier answers");
            identity.drafts.iter().all(|draft| draft.state() == DraftState::Ready)
        })
        .await;
    }

    /// Waits until nothing of any request is left: no running or waiting request, no KV block, no draft session.
    pub async fn wait_until_idle(&self) {
        const GAUGES: [&str; 3] = ["running_requests", "waiting_requests", "kv_blocks_used"];
        self.until("nothing of any request is left", async || {
            let identity = self.client.identity().await.expect("the verifier answers");
            let no_session = identity.drafts.iter().all(|draft| draft.open_sessions == 0);
            no_session && GAUGES.iter().all(|gauge| self.metric(&format!("specfleet_verifier_{gauge}"), "") == 0.0)
        })
        .await;
    }

    /// See [`metrics::value`].
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        metrics::value(&self.metrics, name, label)
    }

    /// Waits until something holds that must come to hold; `what` says it in the message if it never does.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds().await {
            let metrics = || self.metrics.text().unwrap_or_default();
            assert!(Instant::now() < deadline, "never came: {what}\n{}", metrics());
            sleep(Duration::from_millis(2)).await;
        }
    }
}

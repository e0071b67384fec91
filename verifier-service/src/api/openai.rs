//! The HTTP face: the API that clients of language models already speak.
//!
//! | path | what |
//! |---|---|
//! | `POST /v1/chat/completions` | messages in, the assistant's next one out; JSON, or a stream of events |
//! | `POST /v1/completions` | the same for prompts as text or token ids, several at a time |
//! | `GET /v1/models` | the target, and the drafts behind it |
//! | `POST /tokenize`, `POST /detokenize` | what the model sees of a text |
//! | `GET /health`, `/ready`, `/metrics`, `/version` | as on the page for probes |
//!
//! Bodies become the same [`GenerateRequest`](specfleet_protocol::v1::GenerateRequest) that the gRPC face takes, and
//! [`crate::request`] checks it: what is allowed is the same on both. Fields that no server knows are ignored; known
//! ones that cannot be honoured are refused ([`unsupported`]); the object `speculation` is this server's own.
//!
//! Two headers count: `x-request-id` names the call ([`request_id`]), and `request-timeout-ms` is how long its client will
//! wait. A client that closes its connection has cancelled its call.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use axum::{
    Router,
    extract::{FromRequestParts, Request},
    http::request::Parts,
    middleware::{from_fn, from_fn_with_state},
    routing::{get, post},
    serve::ListenerExt,
};
use specfleet_service::{Drain, Metrics, MetricsPage, Readiness, Shutdown};
use tokio::net::TcpListener;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{Service, error::Error, service::Shared, telemetry::HttpMetrics};

mod answer;
mod blame;
mod body;
mod call;
mod chat;
mod completions;
mod content;
mod events;
mod failure;
mod grammar;
mod logprobs;
mod messages;
mod models;
mod observe;
mod parts;
mod pieces;
mod request_id;
mod response_format;
mod sampling;
mod schema;
mod slices;
mod speculation;
mod sse;
mod structure;
mod tokenize;
mod tools;
mod unsupported;
mod usage;

use failure::Failure;

const REQUEST_TIMEOUT: &str = "request-timeout-ms";

/// The HTTP face of a verifier. It can be served before the model is loaded: calls are refused until
/// [`open`](Self::open). Clones share one state.
#[derive(Clone)]
pub struct Http {
    opened: Arc<OnceLock<Opened>>,
    drain: Drain,
    page: MetricsPage,
    metrics: HttpMetrics,
}

struct Opened {
    shared: Arc<Shared>,
    /// In seconds since 1970.
    at: u64,
}

impl Http {
    /// A face that leaves with `shutdown`, and shows `metrics` and `readiness`.
    pub fn new(metrics: &Metrics, readiness: Readiness, shutdown: Shutdown) -> Self {
        Self {
            opened: Arc::default(),
            page: MetricsPage::new(metrics, readiness.clone()),
            drain: Drain::new(readiness, shutdown),
            metrics: HttpMetrics::new(&metrics.meter()),
        }
    }

    /// Answers calls by `service` from now on. Only the first one counts.
    pub fn open(&self, service: &Service) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let opened = Opened { shared: service.shared(), at: since_epoch.as_secs() };
        // A second one would be a mistake of the caller; the first serves on.
        let _ = self.opened.set(opened);
    }

    /// Serves until shutdown has drained. New calls are refused meanwhile, in words.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let drain = self.drain.clone();
        // Chunks are small and awaited: never hold them back to fill a packet. A connection where that cannot be had
        // still works.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        tokio::select! {
            served = async { axum::serve(listener, self.router()).await } => served,
            () = drain.run() => Ok(()),
        }
    }

    /// The routes, for tests that need no port.
    pub fn router(self) -> Router {
        let page = self.page.clone().router();
        let observed = from_fn_with_state(self.metrics.clone(), observe::observe);
        Router::new()
            .route("/v1/chat/completions", post(chat::answer))
            .route("/v1/completions", post(completions::answer))
            .route("/v1/models", get(models::list))
            .route("/v1/models/{*id}", get(models::show))
            .route("/tokenize", post(tokenize::tokenize))
            .route("/detokenize", post(tokenize::detokenize))
            .method_not_allowed_fallback(method_not_allowed)
            .layer(observed)
            .route("/version", get(models::version))
            .with_state(self)
            .merge(page)
            .fallback(not_found)
            .layer(from_fn(request_id::name))
    }

    fn shared(&self) -> Result<&Arc<Shared>, Failure> {
        self.opened.get().map(|opened| &opened.shared).ok_or_else(Failure::loading)
    }

    fn opened_at(&self) -> u64 {
        self.opened.get().map_or(0, |opened| opened.at)
    }
}

/// A call that has been let in, and is waited for when the process leaves.
struct Entered {
    shared: Arc<Shared>,
    drain: Drain,
    running: TaskTrackerToken,
}

impl FromRequestParts<Http> for Entered {
    type Rejection = Failure;

    async fn from_request_parts(_: &mut Parts, http: &Http) -> Result<Self, Failure> {
        let running = http.drain.enter().ok_or(Error::Draining)?;
        let shared = http.shared()?.clone();
        // Its body is not read before there is room for it.
        shared.engine.check_room().inspect_err(|error| shared.engine.count_refusal(error))?;
        Ok(Self { shared, drain: http.drain.clone(), running })
    }
}

async fn not_found(request: Request) -> Failure {
    Failure::not_found(request.uri().path())
}

async fn method_not_allowed(request: Request) -> Failure {
    Failure::method_not_allowed(request.method().as_str(), request.uri().path())
}

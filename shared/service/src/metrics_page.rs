//! Scrapers and probes speak plain HTTP and should not need access to the API, so they get a port of their own.

use std::{future::Future, io};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::{Metrics, Readiness, lifecycle::State as Lifecycle};

/// `/metrics` for Prometheus, `/health` for liveness (this process answers), `/ready` for readiness (it wants
/// requests; if not, the body says why).
#[derive(Clone, Debug)]
pub struct MetricsPage {
    metrics: Metrics,
    readiness: Readiness,
}

impl MetricsPage {
    /// A page that shows `metrics` and `readiness`.
    pub fn new(metrics: &Metrics, readiness: Readiness) -> Self {
        Self { metrics: metrics.clone(), readiness }
    }

    /// Serves until `until` resolves. Let that be after the drain: its last seconds are worth a scrape, and a probe must
    /// still hear "not ready".
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        until: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        axum::serve(listener, self.router()).with_graceful_shutdown(until).await
    }

    /// The same routes, for a server that has others too.
    pub fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/health", get(async || "alive\n"))
            .route("/ready", get(ready))
            .with_state(self)
    }
}

async fn metrics(State(page): State<MetricsPage>) -> impl IntoResponse {
    match page.metrics.text() {
        Ok(text) => Ok(([(CONTENT_TYPE, Metrics::TEXT_FORMAT)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn ready(State(page): State<MetricsPage>) -> impl IntoResponse {
    let state = page.readiness.state();
    let status = if state == Lifecycle::Ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", state.as_str()))
}

#[cfg(test)]
mod tests;

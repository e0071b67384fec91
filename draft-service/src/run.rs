//! From flags to a service that listens, and from a signal to its end.

use std::{pin::pin, time::Duration};

use anyhow::{Context, bail};
use opentelemetry::metrics::Meter;
use specfleet_model::load::load as load_model;
use specfleet_service::{GrpcServer, Metrics, MetricsPage, Readiness, Shutdown, bind, load::load};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::info;

use crate::{
    config::{Config, EngineArg, Listen},
    service::Service,
    telemetry::SERVICE_NAME,
};

/// How long the engine's thread may take to end once its last session is gone. A step of a long prefix may be under way.
const ENGINE_END_LIMIT: Duration = Duration::from_secs(2);

/// Serves until `shutdown` has drained.
///
/// # Errors
/// When a setting cannot be used, a port is taken, the model cannot be loaded, or the server or the engine breaks off.
pub async fn run(config: Config, shutdown: Shutdown, metrics: &Metrics) -> anyhow::Result<()> {
    config.validate()?;
    // Ports first: loading takes long, and a port that is taken should not be found out after it.
    let listener = bind(config.listen.listen, Listen::LISTEN_FLAG, Listen::LISTEN_ENV).await?;
    let page_listener =
        bind(config.listen.metrics_listen, Listen::METRICS_LISTEN_FLAG, Listen::METRICS_LISTEN_ENV).await?;
    let address = listener.local_addr()?;

    let readiness = Readiness::new();
    // Until after the drain: a probe must still hear "not ready" during it.
    let page_ends = CancellationToken::new();
    let _end_of_page = page_ends.clone().drop_guard();
    let page = MetricsPage::new(metrics, readiness.clone());
    tokio::spawn(page.serve(page_listener, page_ends.cancelled_owned()));

    let stall_limit = config.listen.stall_limit;
    let meter = metrics.meter();
    let Some(service) = load(&shutdown, move || start(&config, &meter)).await? else { return Ok(()) };
    let service = service?;
    let identity = service.identity();
    info!(
        %address,
        version_id = identity.version_id,
        label = identity.label,
        architecture = identity.architecture,
        device = identity.device,
        "ready to draft"
    );
    readiness.set_ready();
    let watch = service.progress().clone().watch(readiness.clone(), stall_limit);
    let _watching = AbortOnDropHandle::new(tokio::spawn(watch));

    let server = GrpcServer::new(readiness, shutdown, metrics).add_service(service.grpc());
    let mut ended = pin!(service.ended());
    tokio::select! {
        served = server.serve(listener) => served?,
        () = &mut ended => bail!("the drafting engine broke off; the log says why"),
    }
    if tokio::time::timeout(ENGINE_END_LIMIT, ended).await.is_err() {
        info!(limit = ?ENGINE_END_LIMIT, "a step is still under way; ending without it");
    }
    info!("drained");
    Ok(())
}

/// Loads what drafts. Takes as long as the model is large.
fn start(config: &Config, meter: &Meter) -> anyhow::Result<Service> {
    let options = config.options();
    let service = match config.engine {
        EngineArg::Lookup => {
            Service::from_lookup(config.label_or(SERVICE_NAME), config.lookup_options(), options, meter)?
        }
        EngineArg::Model | EngineArg::LookupModel => {
            let path = config.model.model.as_deref().context("--model is missing")?;
            let loaded = load_model(path, &config.model.load_options())?;
            let label = config.label_or(&loaded.label);
            Service::from_model(loaded.model, &loaded.tokenizer, label, options, meter)?
        }
    };
    Ok(service)
}

//! From a configuration to a service on its ports, and back.

use std::time::Duration;

use anyhow::{Context, bail};
use specfleet_model::load::load as load_model;
use specfleet_protocol::channel::{self, ChannelOptions};
use specfleet_service::{GrpcServer, ListenArgs, Metrics, MetricsPage, Readiness, Shutdown, bind, load::load};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::transport::Channel;
use tracing::{info, warn};

use crate::{Config, Http, Service, config::HttpArgs};

type Listen = ListenArgs<50051, 9464>;

/// How long the engine may take to end its last requests. A step may be under way, or hang for ever.
const ENGINE_END_LIMIT: Duration = Duration::from_secs(2);

/// Serves until `shutdown` has drained.
///
/// All ports are taken before the model is loaded: a port that somebody else has shows at once, and probes are answered
/// while the weights are read.
///
/// # Errors
/// When a port cannot be had, the model cannot be loaded, or the engine fails.
pub async fn run(config: Config, shutdown: Shutdown, metrics: &Metrics) -> anyhow::Result<()> {
    config.validate()?;
    let (address, metrics_address) = (config.listen.listen, config.listen.metrics_listen);
    let listener = bind(address, Listen::LISTEN_FLAG, Listen::LISTEN_ENV).await?;
    let page_listener = bind(metrics_address, Listen::METRICS_LISTEN_FLAG, Listen::METRICS_LISTEN_ENV).await?;
    let http_listener = bind(config.http.http_listen, HttpArgs::LISTEN_FLAG, HttpArgs::LISTEN_ENV).await?;
    let http_address = http_listener.local_addr()?;
    let readiness = Readiness::new();
    let page_ends = CancellationToken::new();
    let page = MetricsPage::new(metrics, readiness.clone()).serve(page_listener, page_ends.clone().cancelled_owned());
    let page = tokio::spawn(page);
    let http = Http::new(metrics, readiness.clone(), shutdown.clone());
    let serving_http = AbortOnDropHandle::new(tokio::spawn(http.clone().serve(http_listener)));

    let (path, load_options) = (config.model.model.clone(), config.model.load_options());
    let path = path.context("--model is missing")?;
    let loaded = load(&shutdown, move || load_model(&path, &load_options)).await?;
    let Some(loaded) = loaded else { return Ok(()) };
    let mut loaded = loaded.context("cannot load the target model")?;
    config.sampling.apply(&mut loaded.generation);
    let service = Service::start(loaded, draft_channels(&config)?, config.options(), &metrics.meter())?;
    let identity = service.identity();
    info!(
        version = identity.version_id,
        label = identity.label,
        device = identity.device,
        dtype = identity.dtype,
        "serving HTTP at {}, gRPC at {}, metrics at {}",
        http_address,
        listener.local_addr()?,
        metrics_address
    );
    if config.drafts.endpoints.is_empty() {
        warn!("no --draft is given: decoding is plain");
    }
    http.open(&service);
    readiness.set_ready();
    let watch = service.progress().clone().watch(readiness.clone(), config.listen.stall_limit);
    let _watching = AbortOnDropHandle::new(tokio::spawn(watch));
    let server = GrpcServer::new(readiness, shutdown, metrics).add_service(service.grpc()).serve(listener);
    let serving = async {
        server.await?;
        // Its last calls may take longer.
        serving_http.await?.context("the HTTP server broke off")
    };
    tokio::select! {
        served = serving => served?,
        () = service.ended() => bail!("the engine has ended by itself; see the log above for its panic"),
    }
    if tokio::time::timeout(ENGINE_END_LIMIT, service.stop()).await.is_err() {
        warn!(limit = ?ENGINE_END_LIMIT, "the engine has not ended; the process ends without it");
    }
    page_ends.cancel();
    page.await?.context("the metrics page failed")
}

fn draft_channels(config: &Config) -> Result<Vec<(String, Channel)>, channel::Error> {
    let connect =
        |endpoint: &String| Ok((endpoint.clone(), channel::connect_lazy(endpoint, &ChannelOptions::default())?));
    config.drafts.endpoints.iter().map(connect).collect()
}

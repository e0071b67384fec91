#![allow(clippy::unwrap_used)]
use opentelemetry_proto::tonic::collector::{
    metrics::v1::{
        ExportMetricsServiceRequest, ExportMetricsServiceResponse,
        metrics_service_server::{MetricsService, MetricsServiceServer},
    },
    trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
};
use tokio::{net::TcpListener, sync::mpsc};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

use super::*;
use crate::args::LogFormat;

/// A collector that keeps what it gets, as text.
#[derive(Clone)]
struct Collector(mpsc::UnboundedSender<String>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(format!("{:?}", request.into_inner())).unwrap();
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.send(format!("{:?}", request.into_inner())).unwrap();
        Ok(Response::new(Default::default()))
    }
}

/// The whole way, with a runtime like a service's. The log level is above the span's: quiet logs, full traces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_reaches_the_collector_at_shutdown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, mut received) = mpsc::unbounded_channel();
    let collector = Collector(sender);
    let server = Server::builder()
        .add_service(TraceServiceServer::new(collector.clone()))
        .add_service(MetricsServiceServer::new(collector))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);

    let args = TelemetryArgs { log: "error".into(), log_format: LogFormat::Json, otlp_endpoint: Some(endpoint) };
    let telemetry = Telemetry::start("tested-service", &args).unwrap();
    tracing::info_span!("round", specfleet.draft_length = 3).in_scope(|| tracing::info!("not an attribute"));
    telemetry.metrics().meter().u64_counter("specfleet.rounds").build().add(7, &[]);
    assert!(telemetry.metrics().text().unwrap().contains("specfleet_rounds_total 7"));
    telemetry.shutdown().await;

    let (spans, metrics) = (received.recv().await.unwrap(), received.recv().await.unwrap());
    for part in ["\"round\"", "specfleet.draft_length", "tested-service", "service.instance.id"] {
        assert!(spans.contains(part), "{part} not in {spans}");
    }
    assert!(!spans.contains("not an attribute"), "{spans}");
    for part in ["specfleet.rounds", "tested-service"] {
        assert!(metrics.contains(part), "{part} not in {metrics}");
    }
}

//! What traces and metrics say about calls.

use std::time::Duration;

use opentelemetry::trace::{SpanId, SpanKind, Status, TraceContextExt};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use specfleet_protocol::v1::{self, draft_service_client::DraftServiceClient};
use tonic::{Code, Request};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::fake::{self, Session};
use crate::{
    propagation::{self, ClientInterceptor},
    telemetry::traces,
};

const LIMIT: Duration = Duration::from_secs(5);

/// Records the spans of this thread, which is the only one of a test's runtime.
struct Recorder {
    exporter: InMemorySpanExporter,
    _provider: SdkTracerProvider,
    _default: tracing::subscriber::DefaultGuard,
}

impl Recorder {
    fn start() -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        let subscriber = tracing_subscriber::registry().with(traces::layer(&provider));
        Self { exporter, _provider: provider, _default: tracing::subscriber::set_default(subscriber) }
    }

    /// The server's span, once it has ended.
    async fn server_span(&self) -> SpanData {
        loop {
            let spans = self.exporter.get_finished_spans().unwrap();
            match spans.into_iter().find(|span| span.span_kind == SpanKind::Server) {
                Some(span) => return span,
                None => tokio::task::yield_now().await,
            }
        }
    }
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn a_clients_span_is_the_parent_of_the_servers() {
    let recorder = Recorder::start();
    let running = fake::start(LIMIT);
    let round = tracing::info_span!("round");
    let context = round.context();
    let parent = context.span().span_context().clone();

    let mut client = DraftServiceClient::with_interceptor(running.channel, ClientInterceptor);
    let call = client.get_identity(v1::DraftServiceGetIdentityRequest::default());
    call.instrument(round).await.unwrap();

    let span = recorder.server_span().await;
    assert_eq!(span.span_context.trace_id(), parent.trace_id());
    assert_eq!(span.parent_span_id, parent.span_id());
    assert_eq!(span.name, "specfleet.v1.DraftService/GetIdentity");
    assert_eq!(attribute(&span, "rpc.method"), "specfleet.v1.DraftService/GetIdentity");
    assert_eq!(attribute(&span, "rpc.response.status_code"), "OK");
    assert_eq!(span.status, Status::Unset);
}

#[tokio::test]
async fn a_traceparent_header_is_continued() {
    let recorder = Recorder::start();
    let running = fake::start(LIMIT);
    let mut request = Request::new(v1::ProposeRequest::default());
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.metadata_mut().insert("traceparent", header.parse().unwrap());
    let refused = DraftServiceClient::new(running.channel).propose(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);

    let span = recorder.server_span().await;
    assert_eq!(span.span_context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert_eq!(attribute(&span, "rpc.response.status_code"), "FAILED_PRECONDITION");
    assert_eq!(span.status, Status::Unset, "the caller's mistake is not the server's error");
}

#[tokio::test]
async fn without_a_usable_traceparent_a_trace_begins() {
    let recorder = Recorder::start();
    let running = fake::start(LIMIT);
    let mut request = Request::new(v1::DraftServiceGetIdentityRequest::default());
    request.metadata_mut().insert("traceparent", "00-nonsense".parse().unwrap());
    DraftServiceClient::new(running.channel).get_identity(request).await.unwrap();
    let span = recorder.server_span().await;
    assert!(span.span_context.is_valid());
    assert_eq!(span.parent_span_id, SpanId::INVALID);
}

#[test]
fn a_traceparent_inside_a_message_is_continued_and_nonsense_changes_nothing() {
    let recorder = Recorder::start();
    let (stream, round) = (tracing::info_span!("stream"), tracing::info_span!("round"));
    let id = |span: &tracing::Span| span.context().span().span_context().span_id();
    let (stream_id, round_id) = (id(&stream), id(&round));
    let header = propagation::traceparent(&round);
    for (traceparent, expected) in [(&*header, round_id), ("", stream_id), ("00-nonsense", stream_id)] {
        let work = tracing::info_span!(parent: &stream, "work");
        propagation::continue_trace(&work, traceparent);
        drop(work);
        let spans = recorder.exporter.get_finished_spans().unwrap();
        assert_eq!(spans.last().unwrap().parent_span_id, expected, "{traceparent:?}");
    }
    assert_eq!(propagation::traceparent(&tracing::Span::none()), "");
}

#[tokio::test]
async fn a_streams_span_lasts_until_the_stream_ends() {
    let recorder = Recorder::start();
    let running = fake::start(LIMIT);
    let mut session = Session::open(running.channel.clone(), None).await.unwrap();
    session.ask().await.unwrap();
    assert!(recorder.exporter.get_finished_spans().unwrap().is_empty());
    session.close().await;
    let span = recorder.server_span().await;
    assert_eq!(attribute(&span, "rpc.response.status_code"), "OK");
}

#[tokio::test]
async fn a_client_that_goes_away_is_a_cancelled_call() {
    let recorder = Recorder::start();
    let running = fake::start(LIMIT);
    let mut session = Session::open(running.channel.clone(), None).await.unwrap();
    session.ask().await.unwrap();
    drop(session);
    let span = recorder.server_span().await;
    assert_eq!(attribute(&span, "rpc.response.status_code"), "CANCELLED");
}

#[tokio::test]
async fn durations_are_counted_by_method_and_status() {
    let running = fake::start(LIMIT);
    fake::label(running.channel.clone()).await;
    let mut client = DraftServiceClient::new(running.channel.clone());
    client.propose(v1::ProposeRequest::default()).await.unwrap_err();
    // A path that nobody serves must not become a label.
    let mut unknown = v1::verifier_service_client::VerifierServiceClient::new(running.channel.clone());
    unknown.get_identity(v1::VerifierServiceGetIdentityRequest::default()).await.unwrap_err();
    // Probes are not calls.
    let mut health = tonic_health::pb::health_client::HealthClient::new(running.channel.clone());
    health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap();

    let text = running.metrics.text().unwrap();
    let counts: Vec<_> =
        text.lines().filter(|line| line.starts_with("rpc_server_call_duration_seconds_count")).collect();
    assert_eq!(counts.len(), 3, "{text}");
    for (method, status) in [
        ("specfleet.v1.DraftService/GetIdentity", "OK"),
        ("specfleet.v1.DraftService/Propose", "FAILED_PRECONDITION"),
        ("_OTHER", "UNIMPLEMENTED"),
    ] {
        let method = format!("rpc_method=\"{method}\"");
        let status = format!("rpc_response_status_code=\"{status}\"");
        let found = counts.iter().any(|line| line.contains(&method) && line.contains(&status) && line.ends_with(" 1"));
        assert!(found, "{method} {status} not in {counts:#?}");
    }
}

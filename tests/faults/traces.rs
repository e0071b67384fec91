//! One request is one trace over both services: one root, no orphans, the work of the draft under the round that asked for
//! it, and nothing of other requests.

use std::{
    collections::HashMap,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::future::join_all;
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use serde_json::json;
use specfleet_client::v1::{DraftState, GenerateRequest, GenerateResponse};
use specfleet_service::telemetry::span_layer;
use specfleet_tests::{
    http::Stream,
    scripted_pair::{request, settings},
};
use tonic::{Request, Streaming};
use tracing_subscriber::{Layer, filter::dynamic_filter_fn, layer::SubscriberExt};

use crate::support::{Served, certain, serve_draft, serve_verifier, until, winding};

const GENERATE: &str = "specfleet.v1.VerifierService/Generate";
const COMPLETIONS_CALL: &str = "POST /v1/completions";
const DRAFT: &str = "specfleet.v1.DraftService/Draft";

/// Tests that look at spans now: while there is none, the many spans of the others are not kept.
static N_LOOKING: AtomicUsize = AtomicUsize::new(0);

/// Spans of this process that have ended since a test looks. They are told apart by trace.
struct Recorder {
    spans: InMemorySpanExporter,
}

impl Recorder {
    fn start() -> Self {
        static INSTALLED: OnceLock<(InMemorySpanExporter, SdkTracerProvider)> = OnceLock::new();
        let (spans, _) = INSTALLED.get_or_init(|| {
            let spans = InMemorySpanExporter::default();
            let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
            let somebody_looks = dynamic_filter_fn(|_, _| N_LOOKING.load(SeqCst) > 0);
            let layer = span_layer(&provider).with_filter(somebody_looks);
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
            (spans, provider)
        });
        N_LOOKING.fetch_add(1, SeqCst);
        Self { spans: spans.clone() }
    }

    fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    /// The trace of a request, once its tree is whole and the draft's stream has ended.
    async fn trace_of(&self, request_id: &str) -> Trace {
        let mut found = None;
        until(&format!("the trace of {request_id} is whole"), async || {
            let spans = self.spans();
            let id = spans.iter().find(|span| span.name == "generate" && attribute(span, "request_id") == request_id);
            let Some(id) = id.map(|span| span.span_context.trace_id()) else { return false };
            let spans = spans.into_iter().filter(|span| span.span_context.trace_id() == id);
            let trace = Trace { id, spans: spans.map(|span| (span.span_context.span_id(), span)).collect() };
            // The spans of the two calls end last, in either order.
            let has_call = matches!(trace.roots()[..], [root] if root.name != "generate");
            let is_whole = has_call && trace.named(DRAFT).next().is_some();
            found = is_whole.then_some(trace);
            is_whole
        })
        .await;
        found.unwrap()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        N_LOOKING.fetch_sub(1, SeqCst);
    }
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}

struct Trace {
    id: TraceId,
    spans: HashMap<SpanId, SpanData>,
}

impl Trace {
    /// Spans whose parent is not among them.
    fn roots(&self) -> Vec<&SpanData> {
        self.spans.values().filter(|span| !self.spans.contains_key(&span.parent_span_id)).collect()
    }

    fn parent_name(&self, span: &SpanData) -> &str {
        &self.spans[&span.parent_span_id].name
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &SpanData> {
        self.spans.values().filter(move |span| span.name == name)
    }

    /// One root, and everybody under whom he works for.
    fn assert_tree(&self) {
        self.assert_tree_under(GENERATE);
    }

    fn assert_tree_under(&self, root: &str) {
        assert_eq!(self.roots().iter().map(|root| &*root.name).collect::<Vec<_>>(), [root]);
        let parents = [
            ("generate", root),
            ("round", "generate"),
            ("draft_session", "generate"),
            (DRAFT, "draft_session"),
            ("draft.session", DRAFT),
            ("draft_call", "round"),
            // The draft's own work, under the round that asked for it.
            ("draft.advance", "draft_call"),
        ];
        for (name, parent) in parents {
            assert!(self.named(name).next().is_some(), "no span {name}");
            for span in self.named(name) {
                assert_eq!(self.parent_name(span), parent, "the parent of {name}");
            }
        }
        let n_known: usize = parents.iter().map(|(name, _)| self.named(name).count()).sum();
        assert_eq!(n_known + 1, self.spans.len(), "spans that nobody knows: {:?}", self.spans.values());
    }
}

struct Pair {
    verifier: Served,
    _draft: Served,
}

impl Pair {
    async fn start() -> Self {
        let draft = serve_draft(certain(winding)).await;
        let target = certain(winding).with_delay(Duration::from_millis(1));
        let verifier = serve_verifier(target, &[draft.address], settings().verifier, Duration::ZERO).await;
        verifier.await_draft(DraftState::Ready).await;
        Self { verifier, _draft: draft }
    }

    async fn stream(&self, id: &str, n_tokens: u32, traceparent: Option<&str>) -> Streaming<GenerateResponse> {
        let mut wire = Request::new(GenerateRequest { request_id: id.to_owned(), ..request(&[1, 2], n_tokens) });
        if let Some(traceparent) = traceparent {
            wire.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
        }
        self.verifier.raw_client().generate(wire).await.unwrap().into_inner()
    }

    async fn run(&self, id: &str, traceparent: Option<&str>) {
        let mut stream = self.stream(id, 30, traceparent).await;
        while stream.message().await.unwrap().is_some() {}
    }
}

/// The same for calls over HTTP, whole, streamed and left.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_http_is_one_trace_through_both_services() {
    let recorder = Recorder::start();
    let pair = Pair::start().await;
    let body = |stream: bool| json!({"prompt": [[1, 2]], "max_tokens": 30, "stream": stream, "ignore_eos": true});
    let trace_of = async |id: &str| {
        let trace = recorder.trace_of(id).await;
        trace.assert_tree_under(COMPLETIONS_CALL);
        assert_eq!(attribute(trace.roots()[0], "request_id"), id);
        trace
    };
    for (id, traceparent, trace_id, stream) in [
        (
            "http-continued",
            Some("00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            Some("5bf92f3577b34da6a3ce929d0e0e4736"),
            false,
        ),
        (
            "http-streamed",
            Some("00-6bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            Some("6bf92f3577b34da6a3ce929d0e0e4736"),
            true,
        ),
        ("http-absent", None, None, false),
        ("http-invalid", Some("00-0000-nonsense-01"), None, true),
    ] {
        let headers: Vec<_> =
            traceparent.map(|parent| ("traceparent", parent)).into_iter().chain([("x-request-id", id)]).collect();
        let answer = Stream::open(pair.verifier.http(), "/v1/completions", &headers, &body(stream)).rest();
        assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
        let trace = trace_of(id).await;
        let root = trace.roots()[0];
        assert_eq!(attribute(root, "http.response.status_code"), "200");
        match trace_id {
            Some(trace_id) => {
                assert_eq!(trace.id.to_string(), trace_id);
                assert_eq!(root.parent_span_id.to_string(), "00f067aa0ba902b7");
            }
            None => assert_eq!(root.parent_span_id, SpanId::INVALID),
        }
    }
    let long = json!({"prompt": [[1, 2]], "max_tokens": 4000, "stream": true, "ignore_eos": true});
    let headers = [("x-request-id", "http-left")];
    let mut connection = Stream::open(pair.verifier.http(), "/v1/completions", &headers, &long);
    for _ in 0..4 {
        connection.event().unwrap();
    }
    drop(connection);
    trace_of("http-left").await;
    pair.verifier.await_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_trace_goes_on_through_both_services() {
    let recorder = Recorder::start();
    let pair = Pair::start().await;
    pair.run("continued", Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")).await;
    let trace = recorder.trace_of("continued").await;
    trace.assert_tree();
    assert_eq!(trace.id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(trace.roots()[0].parent_span_id.to_string(), "00f067aa0ba902b7");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_usable_trace_one_begins() {
    let recorder = Recorder::start();
    let pair = Pair::start().await;
    for (id, traceparent) in [("absent", None), ("invalid", Some("00-0000-nonsense-01"))] {
        pair.run(id, traceparent).await;
        let trace = recorder.trace_of(id).await;
        trace.assert_tree();
        assert_eq!(trace.roots()[0].parent_span_id, SpanId::INVALID);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_request_closes_its_spans_and_says_so() {
    let recorder = Recorder::start();
    let pair = Pair::start().await;
    let mut stream = pair.stream("cancelled", 4000, None).await;
    for _ in 0..4 {
        stream.message().await.unwrap().unwrap();
    }
    drop(stream);
    let trace = recorder.trace_of("cancelled").await;
    trace.assert_tree();
    assert_eq!(attribute(trace.roots()[0], "rpc.response.status_code"), "CANCELLED");
    pair.verifier.await_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_of_requests_that_run_together_do_not_mix() {
    let recorder = Recorder::start();
    let pair = Pair::start().await;
    let ids: Vec<(String, String)> =
        (1..=32).map(|index| (format!("mixed-{index}"), format!("{index:032x}"))).collect();
    join_all(ids.iter().map(async |(id, trace)| pair.run(id, Some(&format!("00-{trace}-00f067aa0ba902b7-01"))).await))
        .await;
    for (id, trace_id) in &ids {
        let trace = recorder.trace_of(id).await;
        trace.assert_tree();
        assert_eq!(trace.id.to_string(), *trace_id);
        for (name, key) in [("generate", "request_id"), ("draft.session", "specfleet.request_id")] {
            assert!(trace.named(name).all(|span| attribute(span, key) == *id));
        }
    }
}

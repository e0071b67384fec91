//! A draft service in memory, a client of it, and a model that keeps a record of what it was asked to compute.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use specfleet_model::{
    batch::{ForwardError, LanguageModel, Logits, ModelDescription, Segment},
    kv_cache::KvCache,
    scripted::ScriptedModel,
    tokenizer::Tokenizer,
};
use specfleet_protocol::{
    PrefixDigest,
    channel::in_memory,
    v1::{self, draft_request, draft_response, draft_service_client::DraftServiceClient},
};
use specfleet_service::Metrics;
use specfleet_speculation::{TokenId, propose::Support};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Status, Streaming,
    transport::{Channel, Server},
};

use crate::service::{LookupOptions, Options, Service};

pub(super) const N_VOCAB: usize = 16;

pub(super) fn options() -> Options {
    Options {
        max_draft_length: NonZeroUsize::new(8).unwrap(),
        max_sessions: NonZeroUsize::new(64).unwrap(),
        max_grammars: 64,
        prefill_rows: NonZeroUsize::new(64).unwrap(),
        support: Support::default(),
        // As many tokens as are asked for.
        least_chance: 0.0,
        recalled_ngram: None,
        // However busy the machine is.
        dearest_mask: Duration::MAX,
    }
}

/// A running service, and what can be seen of it from outside.
pub(super) struct Draft {
    pub(super) client: DraftServiceClient<Channel>,
    pub(super) version_id: String,
    metrics: Metrics,
}

impl Draft {
    pub(super) fn of_model(model: impl LanguageModel + 'static, options: Options) -> Self {
        let n_vocab = model.description().vocab_size;
        let spellings = (0..n_vocab).map(|id| format!("<{id}>").into_bytes()).collect();
        let tokenizer = Tokenizer::from_bytes(spellings, &[], &[]);
        let metrics = Metrics::local().unwrap();
        let service = Service::from_model(Box::new(model), &tokenizer, "scripted", options, &metrics.meter()).unwrap();
        Self::of_service(service, metrics)
    }

    pub(super) fn of_lookup() -> Self {
        let (longest_ngram, max_tokens) = (NonZeroUsize::new(3).unwrap(), NonZeroUsize::new(1000).unwrap());
        let metrics = Metrics::local().unwrap();
        let lookup = LookupOptions { longest_ngram, max_tokens };
        let service = Service::from_lookup("lookup", lookup, options(), &metrics.meter()).unwrap();
        Self::of_service(service, metrics)
    }

    pub(super) fn of_service(service: Service, metrics: Metrics) -> Self {
        let (channel, incoming) = in_memory();
        let version_id = service.identity().version_id.clone();
        tokio::spawn(Server::builder().add_service(service.grpc()).serve_with_incoming(incoming));
        Self { client: DraftServiceClient::new(channel), version_id, metrics }
    }

    /// An open that nothing is wrong with.
    pub(super) fn open_message(&self, prefix: &[TokenId], seed: u8) -> v1::Open {
        v1::Open {
            request_id: "test".into(),
            pin: self.version_id.clone(),
            settings: Some(settings(seed)),
            committed: prefix.to_vec(),
            prompt_length: prefix.len() as u32,
        }
    }

    pub(super) fn propose_message(&self, prefix: &[TokenId], seed: u8, draft_length: u32) -> v1::ProposeRequest {
        v1::ProposeRequest {
            pin: String::new(),
            settings: Some(settings(seed)),
            committed: prefix.to_vec(),
            prompt_length: prefix.len() as u32,
            draft_length,
        }
    }

    pub(super) async fn open(&self, prefix: &[TokenId], seed: u8) -> Session {
        self.open_with(self.open_message(prefix, seed)).await.unwrap()
    }

    pub(super) async fn open_with(&self, open: v1::Open) -> Result<Session, Status> {
        let mut session = self.stream().await;
        session.digest.extend(&open.committed);
        session.n_committed = open.committed.len() as u32;
        match session.ask(draft_request::Message::Open(open)).await? {
            draft_response::Message::Opened(opened) => {
                assert_eq!(opened.identity.unwrap().version_id, self.version_id);
                Ok(session)
            }
            other => panic!("opened with {other:?}"),
        }
    }

    /// A stream on which nothing has been said.
    pub(super) async fn stream(&self) -> Session {
        let (requests, outgoing) = mpsc::channel(16);
        let responses = self.client.clone().draft(ReceiverStream::new(outgoing)).await.unwrap().into_inner();
        Session { requests, responses, digest: PrefixDigest::new(), n_committed: 0, round: 0 }
    }

    /// The value of a metric summed over its labels, 0 while there is none.
    pub(super) fn metric(&self, name: &str) -> f64 {
        self.metric_with(name, "")
    }

    /// The same for those samples whose labels contain `label`.
    pub(super) fn metric_with(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics.text().unwrap();
        let samples = text.lines().filter_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            let (sample, labels) = sample.split_once('{').unwrap_or((sample, ""));
            (sample == name && labels.contains(label)).then(|| value.parse::<f64>().unwrap())
        });
        samples.sum()
    }

    /// Waits until a metric has a value.
    pub(super) async fn metric_becomes(&self, name: &str, value: f64) {
        self.wait_for(name, |now| now == value).await;
    }

    /// Waits until a metric has at least a value.
    pub(super) async fn metric_reaches(&self, name: &str, value: f64) {
        self.wait_for(name, |now| now >= value).await;
    }

    async fn wait_for(&self, name: &str, is_there: impl Fn(f64) -> bool) {
        let wait = async {
            while !is_there(self.metric(name)) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(reached.is_ok(), "{name} stays at {}", self.metric(name));
    }
}

pub(super) fn settings(seed: u8) -> v1::DraftSettings {
    v1::DraftSettings {
        sampling: Some(v1::SamplingParams::default()),
        draft_seed: vec![seed; 32],
        rule: v1::AcceptanceRule::Standard.into(),
        form: v1::DistributionForm::Sparse.into(),
        vocabulary_size: 0,
        grammar: None,
    }
}

pub(super) fn greedy(mut open: v1::Open) -> v1::Open {
    open.settings.as_mut().unwrap().sampling.as_mut().unwrap().temperature = Some(0.0);
    open
}

/// The verifier's end of a stream.
pub(super) struct Session {
    pub(super) requests: mpsc::Sender<v1::DraftRequest>,
    pub(super) responses: Streaming<v1::DraftResponse>,
    digest: PrefixDigest,
    n_committed: u32,
    round: u64,
}

impl Session {
    pub(super) async fn ask(&mut self, message: draft_request::Message) -> Result<draft_response::Message, Status> {
        self.send(Some(message)).await;
        self.hear().await
    }

    pub(super) async fn send(&mut self, message: Option<draft_request::Message>) {
        // The stream may have ended already; then `hear` says why.
        let _ = self.requests.send(v1::DraftRequest { message }).await;
    }

    pub(super) async fn hear(&mut self) -> Result<draft_response::Message, Status> {
        let response = self.responses.message().await?;
        Ok(response.expect("the stream should not end without an answer").message.unwrap())
    }

    /// The next advance, with everything in it right.
    pub(super) fn advance_message(&mut self, committed: &[TokenId], draft_length: u32) -> v1::Advance {
        self.digest.extend(committed);
        self.n_committed += committed.len() as u32;
        self.round += 1;
        v1::Advance {
            round: self.round,
            committed: committed.to_vec(),
            base_length: self.n_committed,
            base_digest: self.digest.value(),
            draft_length,
            time_budget_micros: 0,
            traceparent: String::new(),
        }
    }

    pub(super) async fn advance(&mut self, committed: &[TokenId], draft_length: u32) -> Result<v1::Proposal, Status> {
        let message = self.advance_message(committed, draft_length);
        self.advance_with(message).await
    }

    pub(super) async fn advance_with(&mut self, advance: v1::Advance) -> Result<v1::Proposal, Status> {
        match self.ask(draft_request::Message::Advance(advance.clone())).await? {
            draft_response::Message::Proposal(proposal) => {
                let echoed = (proposal.round, proposal.base_length, proposal.base_digest);
                assert_eq!(echoed, (advance.round, advance.base_length, advance.base_digest));
                Ok(proposal)
            }
            other => panic!("answered with {other:?}"),
        }
    }
}

pub(super) fn ids(proposal: &v1::Proposal) -> Vec<TokenId> {
    proposal.tokens.iter().map(|token| token.token_id).collect()
}

/// A row that depends on every token of the prefix and its place.
pub(super) fn mixed_row(prefix: &[TokenId]) -> Vec<f32> {
    let mut state = 0x9e37_79b9_u32;
    for &token in prefix {
        state = (state ^ token).wrapping_mul(0x85eb_ca6b).rotate_left(13);
    }
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65_536.0 * 4.0
    };
    (0..N_VOCAB).map(|_| next()).collect()
}

/// What greedy decoding adds to a prefix under [`mixed_row`].
pub(super) fn best_after(prefix: &[TokenId]) -> TokenId {
    let row = mixed_row(prefix);
    let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter().position(|&logit| logit == best).unwrap() as TokenId
}

/// What greedy decoding adds to a prefix in `n` steps.
pub(super) fn greedy_after(prefix: &[TokenId], n: usize) -> Vec<TokenId> {
    let mut sequence = prefix.to_vec();
    for _ in 0..n {
        sequence.push(best_after(&sequence));
    }
    sequence.split_off(prefix.len())
}

pub(super) fn mixed_model() -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, mixed_row)
}

/// For each forward pass the (position, number of rows) of each segment.
pub(super) type Record = Arc<Mutex<Vec<Vec<(usize, usize)>>>>;

/// A model that writes down what it computes.
pub(super) struct Recorded {
    pub(super) model: ScriptedModel,
    pub(super) record: Record,
}

impl Recorded {
    pub(super) fn new(model: ScriptedModel) -> (Self, Record) {
        let record = Record::default();
        (Self { model, record: record.clone() }, record)
    }
}

impl LanguageModel for Recorded {
    fn description(&self) -> &ModelDescription {
        self.model.description()
    }

    fn kv(&mut self) -> &mut KvCache {
        self.model.kv()
    }

    fn forward(&mut self, segments: &mut [Segment<'_>]) -> Result<Logits, ForwardError> {
        let shapes = segments.iter().map(|segment| (segment.kv.len(), segment.tokens.len())).collect();
        self.record.lock().unwrap().push(shapes);
        self.model.forward(segments)
    }
}

//! A draft that does as it is told, and checks that the verifier keeps to the protocol.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::Stream;
use specfleet_model::identity::{Identity, PROTOCOL_NUMBER, TRANSFORM_SPEC, VocabularyFingerprint};
use specfleet_protocol::{
    PrefixDigest, channel,
    v1::{
        self, DraftRequest, DraftResponse, DraftServiceGetIdentityRequest, DraftServiceGetIdentityResponse,
        ProposeRequest, ProposeResponse, draft_request, draft_response,
        draft_service_server::{DraftService, DraftServiceServer},
        draft_token::Distribution,
    },
};
use specfleet_service::identity;
use specfleet_speculation::TokenId;
use tokio::{runtime::Runtime, sync::mpsc, time::sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Response, Status, Streaming,
    codegen::http::{HeaderMap, HeaderValue},
    metadata::MetadataMap,
    transport::{Channel, Server},
};

use super::{N_VOCAB, tokenizer};

/// A question, with the whole prefix that it is about.
#[derive(Clone, Debug)]
pub(crate) struct Advance {
    pub(crate) committed: Vec<TokenId>,
    pub(crate) n_prompt: usize,
    pub(crate) draft_length: usize,
    /// Number of the question in its session, from 0.
    pub(crate) number: usize,
    /// What a faithful answer looks like, without tokens.
    template: v1::Proposal,
}

/// What to do with a question.
pub(crate) enum Answer {
    /// Propose these, as point masses.
    Tokens(Vec<TokenId>),
    /// Propose these, with the distributions they were drawn from.
    Drawn(Vec<v1::DraftToken>),
    /// Send this.
    Raw(v1::Proposal),
    /// Send this, which need not be a proposal.
    Message(Option<draft_response::Message>),
    /// Never answer.
    Silence,
    /// End the stream.
    Break(Status),
    /// Later.
    After(Duration, Box<Answer>),
}

type Script = dyn Fn(&Advance) -> Answer + Send + Sync;

/// Clones share everything.
#[derive(Clone)]
pub(crate) struct FakeDraft {
    inner: Arc<Inner>,
}

struct Inner {
    script: Box<Script>,
    identity: Mutex<v1::Identity>,
    advances: Mutex<Vec<Advance>>,
    opens: Mutex<Vec<v1::Open>>,
    /// What each stream was allowed to take.
    timeouts: Mutex<Vec<Option<Duration>>>,
    n_open: AtomicUsize,
    /// The answer about identity, if it is none.
    identity_failure: Mutex<Option<Status>>,
}

/// A status whose details are not what they must be: base64.
pub(crate) fn garbled() -> Status {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status-details-bin", HeaderValue::from_static("!!!"));
    Status::with_metadata(Code::Internal, "garbled", MetadataMap::from_headers(headers))
}

/// As the gRPC protocol writes it: a number and a unit.
fn parse_timeout(timeout: &str) -> Duration {
    let (number, unit) = timeout.split_at(timeout.len() - 1);
    let number = number.parse().unwrap();
    match unit {
        "n" => Duration::from_nanos(number),
        "u" => Duration::from_micros(number),
        "m" => Duration::from_millis(number),
        "S" => Duration::from_secs(number),
        other => panic!("a unit of {other:?}"),
    }
}

/// 64 hexadecimal digits.
pub(crate) fn version_id(digit: char) -> String {
    std::iter::repeat_n(digit, 64).collect()
}

impl FakeDraft {
    pub(crate) fn new(script: impl Fn(&Advance) -> Answer + Send + Sync + 'static) -> Self {
        let identity = Identity {
            version_id: version_id('a'),
            label: "fake".to_owned(),
            vocabulary: VocabularyFingerprint::new(&tokenizer(), N_VOCAB),
            context_length: 4096,
            incarnation: "first".to_owned(),
            protocol_number: PROTOCOL_NUMBER,
            transform_spec: TRANSFORM_SPEC,
            architecture: "fake".to_owned(),
            dtype: String::new(),
            device: String::new(),
            step_weight_bytes: 0,
            compute_threads: 0,
        };
        Self {
            inner: Arc::new(Inner {
                script: Box::new(script),
                identity: Mutex::new(identity::to_wire(&identity, true)),
                advances: Mutex::default(),
                opens: Mutex::default(),
                timeouts: Mutex::default(),
                n_open: AtomicUsize::new(0),
                identity_failure: Mutex::default(),
            }),
        }
    }

    /// Proposes what `next` continues with.
    pub(crate) fn following(next: impl Fn(&[TokenId]) -> TokenId + Send + Sync + 'static) -> Self {
        Self::new(move |advance| Answer::Tokens(super::plain(&next, &advance.committed, advance.draft_length)))
    }

    pub(crate) fn with_identity(self, change: impl FnOnce(&mut v1::Identity)) -> Self {
        change(&mut self.inner.identity.lock().unwrap());
        self
    }

    pub(crate) fn change_identity(&self, change: impl FnOnce(&mut v1::Identity)) {
        change(&mut self.inner.identity.lock().unwrap());
    }

    /// Answers so when asked who it is; `None` makes it tell.
    pub(crate) fn fail_identity(&self, failure: Option<Status>) {
        *self.inner.identity_failure.lock().unwrap() = failure;
    }

    /// Serves in memory.
    pub(crate) fn serve(&self) -> Channel {
        let (channel, incoming) = channel::in_memory();
        let server = Server::builder().add_service(DraftServiceServer::new(self.clone()));
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        channel
    }

    /// Serves at a TCP address in a runtime of its own, as another process would: shutting it down cuts every connection.
    pub(crate) fn serve_apart(&self, address: SocketAddr) -> Runtime {
        let runtime = Runtime::new().unwrap();
        let server = Server::builder().add_service(DraftServiceServer::new(self.clone()));
        runtime.spawn(async move { server.serve(address).await.unwrap() });
        runtime
    }

    /// Questions so far.
    pub(crate) fn advances(&self) -> Vec<Advance> {
        self.inner.advances.lock().unwrap().clone()
    }

    pub(crate) fn opens(&self) -> Vec<v1::Open> {
        self.inner.opens.lock().unwrap().clone()
    }

    /// What each stream was allowed to take.
    pub(crate) fn timeouts(&self) -> Vec<Option<Duration>> {
        self.inner.timeouts.lock().unwrap().clone()
    }

    pub(crate) fn n_open(&self) -> usize {
        self.inner.n_open.load(SeqCst)
    }

    async fn converse(
        &self,
        mut questions: Streaming<DraftRequest>,
        answers: mpsc::Sender<Result<DraftResponse, Status>>,
    ) -> Result<(), Status> {
        let pin = |draft: &Self| draft.inner.identity.lock().unwrap().version_id.clone();
        let (mut committed, mut n_prompt, mut number) = (Vec::new(), 0, 0);
        while let Some(question) = questions.message().await? {
            match question.message.unwrap() {
                draft_request::Message::Open(open) => {
                    self.inner.opens.lock().unwrap().push(open.clone());
                    if open.pin != pin(self) {
                        return Err(specfleet_protocol::status::version_mismatch(&open.pin, &pin(self)));
                    }
                    (committed, n_prompt) = (open.committed, open.prompt_length as usize);
                    let identity = Some(self.inner.identity.lock().unwrap().clone());
                    let opened = draft_response::Message::Opened(v1::Opened { identity });
                    let _ = answers.send(Ok(DraftResponse { message: Some(opened) })).await;
                }
                draft_request::Message::Advance(wire) => {
                    committed.extend(&wire.committed);
                    let digest = PrefixDigest::of(&committed).value();
                    assert_eq!((wire.base_length as usize, wire.base_digest), (committed.len(), digest));
                    assert!(wire.draft_length >= 1 && wire.time_budget_micros > 0);
                    let template = v1::Proposal {
                        round: wire.round,
                        base_length: wire.base_length,
                        base_digest: wire.base_digest,
                        version_id: pin(self),
                        ..Default::default()
                    };
                    let draft_length = wire.draft_length as usize;
                    let advance = Advance { committed: committed.clone(), n_prompt, draft_length, number, template };
                    number += 1;
                    let answer = (self.inner.script)(&advance);
                    self.inner.advances.lock().unwrap().push(advance.clone());
                    advance.answer(answer, &answers).await?;
                }
            }
        }
        Ok(())
    }
}

impl Advance {
    /// A faithful answer that holds these tokens as point masses.
    pub(crate) fn proposal(&self, tokens: &[TokenId]) -> v1::Proposal {
        let point = |&token_id: &TokenId| v1::DraftToken {
            token_id,
            distribution: Some(Distribution::Point(v1::PointDistribution {})),
        };
        v1::Proposal { tokens: tokens.iter().map(point).collect(), ..self.template.clone() }
    }

    async fn answer(
        &self,
        answer: Answer,
        answers: &mpsc::Sender<Result<DraftResponse, Status>>,
    ) -> Result<(), Status> {
        let proposed = |proposal| Some(draft_response::Message::Proposal(proposal));
        let message = match answer {
            Answer::Tokens(tokens) => proposed(self.proposal(&tokens)),
            Answer::Drawn(tokens) => proposed(v1::Proposal { tokens, ..self.template.clone() }),
            Answer::Raw(proposal) => proposed(proposal),
            Answer::Message(message) => message,
            Answer::Silence => return Ok(()),
            Answer::Break(status) => return Err(status),
            Answer::After(delay, answer) => {
                sleep(delay).await;
                return Box::pin(self.answer(*answer, answers)).await;
            }
        };
        let _ = answers.send(Ok(DraftResponse { message })).await;
        Ok(())
    }
}

#[tonic::async_trait]
impl DraftService for FakeDraft {
    async fn get_identity(
        &self,
        _: Request<DraftServiceGetIdentityRequest>,
    ) -> Result<Response<DraftServiceGetIdentityResponse>, Status> {
        if let Some(failure) = self.inner.identity_failure.lock().unwrap().clone() {
            return Err(failure);
        }
        let identity = Some(self.inner.identity.lock().unwrap().clone());
        Ok(Response::new(DraftServiceGetIdentityResponse { identity }))
    }

    type DraftStream = Pin<Box<dyn Stream<Item = Result<DraftResponse, Status>> + Send>>;

    async fn draft(&self, request: Request<Streaming<DraftRequest>>) -> Result<Response<Self::DraftStream>, Status> {
        let timeout = request.metadata().get("grpc-timeout").map(|timeout| parse_timeout(timeout.to_str().unwrap()));
        self.inner.timeouts.lock().unwrap().push(timeout);
        let (answers, stream) = mpsc::channel(4);
        let draft = self.clone();
        tokio::spawn(async move {
            draft.inner.n_open.fetch_add(1, SeqCst);
            let ended = draft.converse(request.into_inner(), answers.clone()).await;
            draft.inner.n_open.fetch_sub(1, SeqCst);
            if let Err(status) = ended {
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn propose(&self, _: Request<ProposeRequest>) -> Result<Response<ProposeResponse>, Status> {
        Err(Status::unimplemented("not used by the verifier"))
    }
}

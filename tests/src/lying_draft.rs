//! A draft that may say one thing and do another.
//!
//! The acceptance rule is exact if each token really was drawn from the distribution that is reported with it. A verifier
//! cannot see the draw, so whether the rest of the system notices a draft that breaks the promise must be tried with one
//! that does. This is a draft service over a scripted table that keeps to the protocol in every word and, if told so, lies
//! about its draws ([`Lie`]). With [`Lie::None`] it drafts exactly like the draft-service.

use std::{pin::Pin, sync::Arc};

use futures::Stream;
use specfleet_model::{
    batch::LanguageModel,
    identity::{Identity, PROTOCOL_NUMBER, TRANSFORM_SPEC},
    scripted::{ScriptedModel, table::Table},
    tokenizer::Tokenizer,
};
use specfleet_protocol::{
    PrefixDigest, channel,
    convert::{DraftSettings, RoundProposal, Timings},
    status::{invalid_argument, model_failed, version_mismatch},
    v1::{
        self, DraftRequest, DraftResponse, DraftServiceGetIdentityRequest, DraftServiceGetIdentityResponse,
        ProposeRequest, ProposeResponse, draft_request, draft_response,
        draft_service_server::{DraftService, DraftServiceServer},
    },
};
use specfleet_service::identity;
use specfleet_speculation::{TokenId, distribution::Proposal, transform};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Channel, Server},
};

mod lie;
mod session;

pub use lie::{Lie, known_number};
use session::Session;

/// Answers on their way: the verifier asks one question at a time.
const OUTGOING: usize = 2;

/// A draft service with a habit. Clones share everything.
#[derive(Clone)]
pub struct LyingDraft {
    inner: Arc<Inner>,
}

struct Inner {
    table: Table,
    n_vocab: usize,
    lie: Lie,
    identity: v1::Identity,
}

impl LyingDraft {
    /// A draft that knows the rows of `table`, over the ids of `tokenizer`. Each lie has a version id of its own.
    pub fn new(table: &str, tokenizer: &Tokenizer, lie: Lie) -> Self {
        let n_vocab = tokenizer.vocab_size();
        let model =
            ScriptedModel::from_table(table, n_vocab).unwrap_or_else(|error| panic!("the draft's table: {error}"));
        let identity = Identity::of_model(model.description(), tokenizer, "lying", &format!("{lie:?}"));
        assert_eq!((identity.protocol_number, identity.transform_spec), (PROTOCOL_NUMBER, TRANSFORM_SPEC));
        let table = Table::parse(table, n_vocab).expect("the same text was read before");
        Self { inner: Arc::new(Inner { table, n_vocab, lie, identity: identity::to_wire(&identity, true) }) }
    }

    /// The version that its proposals say they are of.
    pub fn version_id(&self) -> &str {
        &self.inner.identity.version_id
    }

    /// Serves in memory and returns the way to it. Must be called inside a tokio runtime.
    pub fn serve(&self) -> Channel {
        let (channel, incoming) = channel::in_memory();
        let server = Server::builder().add_service(DraftServiceServer::new(self.clone()));
        tokio::spawn(async move { server.serve_with_incoming(incoming).await.expect("the draft is served") });
        channel
    }

    async fn converse(
        &self,
        mut questions: Streaming<DraftRequest>,
        answers: &mpsc::Sender<Result<DraftResponse, Status>>,
    ) -> Result<(), Status> {
        let mut session: Option<Session> = None;
        while let Some(question) = questions.message().await? {
            let answer = match (question.message, &mut session) {
                (Some(draft_request::Message::Open(open)), None) => {
                    self.check_pin(&open.pin)?;
                    session = Some(self.session(open.settings, &open.committed, open.prompt_length)?);
                    draft_response::Message::Opened(v1::Opened { identity: Some(self.inner.identity.clone()) })
                }
                (Some(draft_request::Message::Advance(advance)), Some(session)) => {
                    session.extend(&advance.committed);
                    let proposal = self.propose(session, advance.round, advance.draft_length)?;
                    if (proposal.base_length, proposal.base_digest) != (advance.base_length, advance.base_digest) {
                        return Err(invalid_argument("advance.base_digest", "is of another prefix"));
                    }
                    draft_response::Message::Proposal(proposal)
                }
                _ => return Err(invalid_argument("message", "comes out of turn; send open once, then advance")),
            };
            if answers.send(Ok(DraftResponse { message: Some(answer) })).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    fn check_pin(&self, pin: &str) -> Result<(), Status> {
        if pin == self.version_id() { Ok(()) } else { Err(version_mismatch(pin, self.version_id())) }
    }

    fn session(
        &self,
        settings: Option<v1::DraftSettings>,
        committed: &[TokenId],
        prompt_length: u32,
    ) -> Result<Session, Status> {
        let settings = settings.ok_or_else(|| invalid_argument("settings", "is missing"))?;
        Session::new(DraftSettings::try_from(settings)?, self.inner.n_vocab, committed, prompt_length as usize)
    }

    fn propose(&self, session: &Session, round: u64, draft_length: u32) -> Result<v1::Proposal, Status> {
        let (mut tokens, mut distributions) = (Vec::new(), Vec::new());
        while tokens.len() < draft_length as usize {
            let mut row = self.inner.table.logits(&session.prefix_with(&tokens));
            match self.inner.lie.draft(session, &mut row, &tokens) {
                Ok(Some(drafted)) => {
                    tokens.push(drafted.token);
                    distributions.push(drafted.distribution);
                }
                Ok(None) | Err(transform::Error::NothingLeft) => break,
                Err(error) => return Err(model_failed(error.to_string())),
            }
        }
        let proposal = Proposal::new(tokens, distributions, self.inner.n_vocab).expect("lies are well-formed");
        Ok(v1::Proposal::from(&RoundProposal {
            round,
            base_length: u32::try_from(session.committed().len()).expect("a script's prefix is short"),
            base_digest: PrefixDigest::of(session.committed()).value(),
            version_id: self.version_id().to_owned(),
            proposal,
            timings: Timings::default(),
        }))
    }
}

#[tonic::async_trait]
impl DraftService for LyingDraft {
    async fn get_identity(
        &self,
        _: Request<DraftServiceGetIdentityRequest>,
    ) -> Result<Response<DraftServiceGetIdentityResponse>, Status> {
        let identity = Some(self.inner.identity.clone());
        Ok(Response::new(DraftServiceGetIdentityResponse { identity }))
    }

    type DraftStream = Pin<Box<dyn Stream<Item = Result<DraftResponse, Status>> + Send>>;

    async fn draft(&self, request: Request<Streaming<DraftRequest>>) -> Result<Response<Self::DraftStream>, Status> {
        let (answers, stream) = mpsc::channel(OUTGOING);
        let draft = self.clone();
        tokio::spawn(async move {
            if let Err(status) = draft.converse(request.into_inner(), &answers).await {
                // Fails if the verifier has left, and then it need not know.
                let _ = answers.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn propose(&self, request: Request<ProposeRequest>) -> Result<Response<ProposeResponse>, Status> {
        let request = request.into_inner();
        if !request.pin.is_empty() {
            self.check_pin(&request.pin)?;
        }
        let session = self.session(request.settings, &request.committed, request.prompt_length)?;
        let proposal = self.propose(&session, 0, request.draft_length)?;
        Ok(Response::new(ProposeResponse { proposal: Some(proposal) }))
    }
}

//! The gRPC face: messages in, validated requests to the engine, its events out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use futures::{Stream, StreamExt};
use specfleet_protocol::v1::{
    self, GenerateRequest, GenerateResponse, VerifierServiceGetIdentityRequest, VerifierServiceGetIdentityResponse,
    VerifierServiceListDraftVersionsRequest, VerifierServiceListDraftVersionsResponse, generate_response,
    verifier_service_server::VerifierService,
};
use tonic::{Request, Response, Status};

use super::admit::Running;
use crate::{
    error::Error,
    output::{Event, OutputToken, PromptToken, TokenScore, Watched, untaken},
    request::Deadline,
    service::Shared,
    wire,
};

/// Implements [`VerifierService`] over a running engine.
pub struct Grpc {
    shared: Arc<Shared>,
}

impl Grpc {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn admit(
        &self,
        wire: GenerateRequest,
        now: Instant,
        deadline: Option<Deadline>,
    ) -> Result<GenerationStream, Error> {
        let running = self.shared.run(self.shared.check(wire, now, deadline).await?)?;
        let has_ended = running.generation.has_ended();
        let responses = Responses { running, target_version_id: self.shared.identity.version_id.clone() };
        Ok(GenerationStream(Watched::new(responses, has_ended, |_| Err(untaken().into()))))
    }
}

#[tonic::async_trait]
impl VerifierService for Grpc {
    async fn get_identity(
        &self,
        request: Request<VerifierServiceGetIdentityRequest>,
    ) -> Result<Response<VerifierServiceGetIdentityResponse>, Status> {
        let mut identity = self.shared.identity.clone();
        if !request.get_ref().include_token_digests
            && let Some(vocabulary) = &mut identity.vocabulary
        {
            vocabulary.token_digests = Vec::new();
        }
        let drafts = self.shared.pool.statuses();
        Ok(Response::new(VerifierServiceGetIdentityResponse { identity: Some(identity), drafts }))
    }

    async fn list_draft_versions(
        &self,
        _: Request<VerifierServiceListDraftVersionsRequest>,
    ) -> Result<Response<VerifierServiceListDraftVersionsResponse>, Status> {
        Ok(Response::new(VerifierServiceListDraftVersionsResponse { versions: self.shared.pool.versions() }))
    }

    type GenerateStream = GenerationStream;

    async fn generate(&self, request: Request<GenerateRequest>) -> Result<Response<GenerationStream>, Status> {
        let now = Instant::now();
        let deadline = request.extensions().get::<specfleet_service::Deadline>();
        let deadline = deadline.map(|deadline| Deadline { at: deadline.at.into_std(), allowed: deadline.allowed });
        match self.admit(request.into_inner(), now, deadline).await {
            Ok(stream) => Ok(Response::new(stream)),
            Err(error) => {
                self.shared.engine.count_refusal(&error);
                Err(error.into())
            }
        }
    }
}

/// A generation as the client sees it. Dropping it cancels the request.
pub struct GenerationStream(Watched<Responses>);

/// The events of a request as messages.
struct Responses {
    running: Running,
    target_version_id: String,
}

impl Stream for GenerationStream {
    type Item = Result<GenerateResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl Responses {
    fn wire_event(&self, event: Event) -> generate_response::Event {
        match event {
            Event::Started { n_prompt, n_reused } => generate_response::Event::Started(v1::Started {
                request_id: self.running.request_id.clone(),
                prompt_tokens: wire::count(n_prompt),
                reused_prompt_tokens: wire::count(n_reused),
                target_version_id: self.target_version_id.clone(),
            }),
            Event::Committed { choice_index, prompt, tokens, n_proposed } => {
                generate_response::Event::Committed(v1::Committed {
                    tokens: tokens.into_iter().map(wire_token).collect(),
                    n_proposed: wire::count(n_proposed),
                    choice_index,
                    prompt: prompt.into_iter().map(wire_prompt_token).collect(),
                })
            }
            Event::Finished(finished) => generate_response::Event::Finished(finished),
        }
    }
}

impl Stream for Responses {
    type Item = Result<GenerateResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.running.generation.poll_next_unpin(context));
        Poll::Ready(next.map(|event| {
            let event = self.wire_event(event?);
            Ok(GenerateResponse { event: Some(event) })
        }))
    }
}

fn wire_token(OutputToken { token, text, origin, score, .. }: OutputToken) -> v1::CommittedToken {
    let origin = v1::TokenOrigin::from(origin).into();
    v1::CommittedToken { token_id: token, text, origin, score: score.map(wire_score) }
}

fn wire_prompt_token(PromptToken { token, score }: PromptToken) -> v1::PromptToken {
    v1::PromptToken { token_id: token, score: score.map(wire_score) }
}

fn wire_score(TokenScore { logprob, top }: TokenScore) -> v1::TokenScore {
    let top = top.into_iter().map(|(token_id, logprob)| v1::TokenLogprob { token_id, logprob });
    v1::TokenScore { logprob, top: top.collect() }
}

//! The gRPC face: messages in, validated requests to the engine, its events out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use futures::{FutureExt, Stream};
use specfleet_protocol::v1::{
    self, GenerateRequest, GenerateResponse, VerifierServiceGetIdentityRequest, VerifierServiceGetIdentityResponse,
    generate_response, verifier_service_server::VerifierService,
};
use tonic::{Request, Response, Status};
use tracing::{Span, field::Empty, info_span};

use crate::{
    error::Error,
    output::{Event, Generation, OutputToken},
    request::{self, Deadline},
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
        let shared = self.shared.clone();
        let permit = shared.engine.admit()?;
        // Tokenising a long prompt takes milliseconds that other streams would wait. It goes on if the client leaves, so
        // it holds the permit: otherwise whoever asks and leaves could keep any number of cores busy.
        let check = move || shared.rules.check(wire, now, deadline).map(|request| (request, permit));
        let checked = tokio::task::spawn_blocking(check).await;
        let (request, permit) = checked.unwrap_or_else(|panic| Err(Error::ModelFailed(panic.to_string())))?;
        self.check_pin(&request.drafting)?;
        let span = info_span!(
            "generate",
            request_id = request.id,
            prompt_tokens = request.prompt.len(),
            completion_tokens = Empty,
            finish_reason = Empty
        );
        let request_id = request.id.clone();
        let generation = self.shared.engine.generate(request, permit, span.clone())?;
        let target_version_id = self.shared.identity.version_id.clone();
        Ok(GenerationStream { generation, request_id, target_version_id, is_over: false, _span: span })
    }

    fn check_pin(&self, drafting: &request::Drafting) -> Result<(), Error> {
        match &drafting.pin {
            Some(pin) if drafting.require_pin && !self.shared.pool.has_ready(pin) => {
                Err(Error::DraftUnavailable { pin: pin.clone() })
            }
            _ => Ok(()),
        }
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
pub struct GenerationStream {
    generation: Generation,
    request_id: String,
    target_version_id: String,
    is_over: bool,
    /// Open for as long as the client listens.
    _span: Span,
}

impl GenerationStream {
    fn wire_event(&self, event: Event) -> generate_response::Event {
        match event {
            Event::Started { n_prompt, n_reused } => generate_response::Event::Started(v1::Started {
                request_id: self.request_id.clone(),
                prompt_tokens: wire::count(n_prompt),
                reused_prompt_tokens: wire::count(n_reused),
                target_version_id: self.target_version_id.clone(),
            }),
            Event::Committed { tokens, n_proposed } => generate_response::Event::Committed(v1::Committed {
                tokens: tokens.into_iter().map(wire_token).collect(),
                n_proposed: wire::count(n_proposed),
            }),
        }
    }
}

impl Stream for GenerationStream {
    type Item = Result<GenerateResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let response = |event| GenerateResponse { event: Some(event) };
        if let Some(event) = ready!(self.generation.events.poll_recv(context)) {
            return Poll::Ready(Some(Ok(response(self.wire_event(event)))));
        }
        // Everything was delivered: how did it end?
        let end = ready!(self.generation.end.poll_unpin(context));
        self.is_over = true;
        let end = end.unwrap_or_else(|_| Err(Error::ModelFailed("the engine has ended".to_owned())));
        let finished = end.map(|finished| response(generate_response::Event::Finished(finished)));
        Poll::Ready(Some(finished.map_err(Status::from)))
    }
}

fn wire_token(OutputToken { token, text, origin }: OutputToken) -> v1::CommittedToken {
    v1::CommittedToken { token_id: token, text, origin: v1::TokenOrigin::from(origin).into() }
}

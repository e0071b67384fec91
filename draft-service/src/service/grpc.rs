//! The three methods of `specfleet.v1.DraftService`.

use std::{pin::Pin, sync::Arc, time::Instant};

use futures::Stream;
use specfleet_protocol::{
    PrefixDigest,
    status::{Prefix, invalid_argument},
    v1::{
        self, DraftRequest, DraftResponse, DraftServiceGetIdentityRequest, DraftServiceGetIdentityResponse,
        ProposeRequest, ProposeResponse, draft_service_server,
    },
};
use specfleet_service::Deadline;
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, Span, field::Empty, info_span};

use super::{conversation::Conversation, shared::Shared};
use crate::engine::Advance;

/// The generated trait's implementation.
#[derive(Clone)]
pub struct Grpc {
    shared: Arc<Shared>,
}

impl Grpc {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// One proposal by a session that lives no longer than the call.
    async fn propose_once(&self, request: ProposeRequest, deadline: Option<Instant>) -> Result<v1::Proposal, Status> {
        let arrived = Instant::now();
        if !request.pin.is_empty() {
            self.shared.check_pin(&request.pin)?;
        }
        if request.draft_length == 0 {
            return Err(invalid_argument("draft_length", "is 0, must be at least 1"));
        }
        let base = Prefix {
            length: u32::try_from(request.committed.len()).unwrap_or(u32::MAX),
            digest: PrefixDigest::of(&request.committed).value(),
        };
        let draft_length = request.draft_length as usize;
        let advance = Advance { committed: Vec::new(), base, draft_length, arrived, deadline };
        let mut session = self.shared.open(request.settings, request.committed, request.prompt_length).await?;
        let proposed = session.advance(advance, Span::current()).await?;
        self.shared.proposal(0, proposed)
    }
}

#[tonic::async_trait]
impl draft_service_server::DraftService for Grpc {
    type DraftStream = Pin<Box<dyn Stream<Item = Result<DraftResponse, Status>> + Send>>;

    async fn get_identity(
        &self,
        request: Request<DraftServiceGetIdentityRequest>,
    ) -> Result<Response<DraftServiceGetIdentityResponse>, Status> {
        let identity = self.shared.identity(request.get_ref().include_token_digests);
        Ok(Response::new(DraftServiceGetIdentityResponse { identity: Some(identity) }))
    }

    async fn draft(&self, request: Request<Streaming<DraftRequest>>) -> Result<Response<Self::DraftStream>, Status> {
        let conversation = Conversation::new(self.shared.clone(), request.into_inner(), Span::current());
        Ok(Response::new(Box::pin(conversation.responses())))
    }

    async fn propose(&self, request: Request<ProposeRequest>) -> Result<Response<ProposeResponse>, Status> {
        let deadline = request.extensions().get::<Deadline>().map(|deadline| deadline.at.into_std());
        let request = request.into_inner();
        let span = info_span!(
            "draft.propose",
            specfleet.draft_length = request.draft_length,
            specfleet.proposed = Empty,
            specfleet.queue_micros = Empty,
            specfleet.compute_micros = Empty,
        );
        let proposal = self.propose_once(request, deadline).instrument(span).await;
        let proposal = proposal.map_err(|status| self.shared.refuse(status))?;
        Ok(Response::new(ProposeResponse { proposal: Some(proposal) }))
    }
}

//! A draft that says what it is told to.

use std::sync::{Mutex, PoisonError};

use specfleet_protocol::v1::{self, draft_request, draft_response, draft_service_server::DraftService};
use tonic::{
    Request, Response, Status, Streaming,
    codegen::{BoxStream, tokio_stream::StreamExt},
};

#[derive(Debug)]
pub(super) struct Draft {
    identity: v1::Identity,
    words: Mutex<Vec<v1::DraftResponse>>,
}

impl Draft {
    pub(super) fn new(identity: v1::Identity, words: Vec<v1::DraftResponse>) -> Self {
        Self { identity, words: Mutex::new(words) }
    }
}

#[tonic::async_trait]
impl DraftService for Draft {
    type DraftStream = BoxStream<v1::DraftResponse>;

    async fn get_identity(
        &self,
        _: Request<v1::DraftServiceGetIdentityRequest>,
    ) -> Result<Response<v1::DraftServiceGetIdentityResponse>, Status> {
        Ok(Response::new(v1::DraftServiceGetIdentityResponse { identity: Some(self.identity.clone()) }))
    }

    /// All words in the first session, one for each message of the verifier. Then the stream ends with what puts no draft in
    /// doubt, since another would be asked at once.
    async fn draft(
        &self,
        request: Request<Streaming<v1::DraftRequest>>,
    ) -> Result<Response<Self::DraftStream>, Status> {
        let words = std::mem::take(&mut *self.words.lock().unwrap_or_else(PoisonError::into_inner));
        let (mut words, version_id) = (words.into_iter(), self.identity.version_id.clone());
        let answers = request.into_inner().map(move |asked| {
            let mut word = words.next().ok_or_else(|| Status::resource_exhausted("there is nothing more to say"))?;
            if let (Some(draft_request::Message::Advance(advance)), Some(draft_response::Message::Proposal(proposal))) =
                (asked?.message, &mut word.message)
            {
                fill_in(proposal, &advance, &version_id);
            }
            Ok(word)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn propose(&self, _: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

/// What a proposal leaves out is what was asked for. Which prefix that is depends on what has passed before: spelled out, one
/// mistake would make all that follows an answer to something else.
fn fill_in(proposal: &mut v1::Proposal, advance: &v1::Advance, version_id: &str) {
    let v1::Proposal { round, base_length, base_digest, version_id: version, .. } = proposal;
    if *round == 0 {
        *round = advance.round;
    }
    if *base_length == 0 {
        *base_length = advance.base_length;
    }
    if *base_digest == 0 {
        *base_digest = advance.base_digest;
    }
    if version.is_empty() {
        version_id.clone_into(version);
    }
}

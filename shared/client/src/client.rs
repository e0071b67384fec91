//! Connections to the two services.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use specfleet_protocol::channel::{self, ChannelOptions};
use specfleet_protocol::limits::MESSAGE_CEILING;
use tonic::Status;
use tonic::transport::Channel;

use crate::error::{Error, Service, innermost};
use crate::generation::Generation;
use crate::v1::draft_service_client::DraftServiceClient;
use crate::v1::verifier_service_client::VerifierServiceClient;
use crate::v1::{self, GenerateRequest};

/// A connection to one verifier. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    service: VerifierServiceClient<Channel>,
    endpoint: String,
}

impl Client {
    /// Connects to the verifier at `endpoint`, for example `http://127.0.0.1:50051`.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if that is no address, [`Error::Unreachable`] if nothing answers there.
    pub async fn connect(endpoint: &str) -> Result<Self, Error> {
        Ok(Self::from_channel(connect(Service::Verifier, endpoint).await?, endpoint))
    }

    /// A client over a channel that exists already, for example one in memory. `endpoint` names it in errors.
    pub fn from_channel(channel: Channel, endpoint: impl Into<String>) -> Self {
        // The log-probabilities of a long prompt are one message, above what the library allows unless told otherwise.
        let service = VerifierServiceClient::new(channel).max_decoding_message_size(MESSAGE_CEILING);
        Self { service, endpoint: endpoint.into() }
    }

    /// Starts a request and returns its events. See [`crate::request`] for the usual ones.
    ///
    /// # Errors
    /// [`Error::Refused`] if the verifier does not take it. It may also take it and refuse later, in the stream.
    pub async fn generate(&self, request: GenerateRequest) -> Result<Generation, Error> {
        let n = request.n;
        match contained(self.service.clone().generate(request)).await {
            Ok(response) => Ok(Generation::new(response.into_inner(), self.endpoint.clone(), n)),
            Err(status) => Err(Error::from_status(Service::Verifier, &self.endpoint, &status)),
        }
    }

    /// Which target the verifier runs, and the drafts it knows.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::ConnectionLost`].
    pub async fn identity(&self) -> Result<v1::VerifierServiceGetIdentityResponse, Error> {
        let request = v1::VerifierServiceGetIdentityRequest { include_token_digests: false };
        match contained(self.service.clone().get_identity(request)).await {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(Error::from_status(Service::Verifier, &self.endpoint, &status)),
        }
    }

    /// What the verifier knows of each draft version that it has opened a session with: how far it is trusted, and the
    /// evidence.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::ConnectionLost`].
    pub async fn draft_versions(&self) -> Result<Vec<v1::DraftVersion>, Error> {
        let request = v1::VerifierServiceListDraftVersionsRequest {};
        match contained(self.service.clone().list_draft_versions(request)).await {
            Ok(response) => Ok(response.into_inner().versions),
            Err(status) => Err(Error::from_status(Service::Verifier, &self.endpoint, &status)),
        }
    }

    /// The address it is connected to, as given.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

/// A connection to one draft-service, to ask who it is. Proposals are the verifier's business.
#[derive(Debug, Clone)]
pub struct DraftClient {
    service: DraftServiceClient<Channel>,
    endpoint: String,
}

impl DraftClient {
    /// Connects to the draft-service at `endpoint`, for example `http://127.0.0.1:50052`.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if that is no address, [`Error::Unreachable`] if nothing answers there.
    pub async fn connect(endpoint: &str) -> Result<Self, Error> {
        let channel = connect(Service::Draft, endpoint).await?;
        Ok(Self { service: DraftServiceClient::new(channel), endpoint: endpoint.to_owned() })
    }

    /// Which draft it runs.
    ///
    /// # Errors
    /// [`Error::Refused`] or [`Error::ConnectionLost`].
    pub async fn identity(&self) -> Result<v1::Identity, Error> {
        let request = v1::DraftServiceGetIdentityRequest { include_token_digests: false };
        match contained(self.service.clone().get_identity(request)).await {
            Ok(response) => Ok(response.into_inner().identity.unwrap_or_default()),
            Err(status) => Err(Error::from_status(Service::Draft, &self.endpoint, &status)),
        }
    }
}

/// The gRPC library panics at a status whose details are not what they should be. A peer must not end its client.
async fn contained<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| Err(unreadable()))
}

/// In place of a status that makes the library panic.
pub(crate) fn unreadable() -> Status {
    Status::internal("its answer cannot be read; is something else listening there?")
}

async fn connect(service: Service, endpoint: &str) -> Result<Channel, Error> {
    let tuned = channel::endpoint(endpoint, &ChannelOptions::default())?;
    tuned.connect().await.map_err(|error| Error::Unreachable {
        service,
        endpoint: endpoint.to_owned(),
        reason: innermost(&error),
    })
}

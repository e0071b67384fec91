//! A draft service without a model, in memory.

use std::{pin::Pin, time::Duration};

use futures::Stream;
use specfleet_protocol::{
    channel,
    v1::{
        self,
        draft_service_client::DraftServiceClient,
        draft_service_server::{DraftService, DraftServiceServer},
    },
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, transport::Channel};

use crate::{Deadline, GrpcServer, Metrics, Readiness, Shutdown, serve::Error};

struct Fake;

pub(super) fn service() -> DraftServiceServer<impl DraftService> {
    DraftServiceServer::new(Fake)
}

fn identity(label: String) -> Option<v1::Identity> {
    Some(v1::Identity { label, ..Default::default() })
}

#[tonic::async_trait]
impl DraftService for Fake {
    type DraftStream = Pin<Box<dyn Stream<Item = Result<v1::DraftResponse, Status>> + Send>>;

    async fn get_identity(
        &self,
        _: Request<v1::DraftServiceGetIdentityRequest>,
    ) -> Result<Response<v1::DraftServiceGetIdentityResponse>, Status> {
        Ok(Response::new(v1::DraftServiceGetIdentityResponse { identity: identity("fake".into()) }))
    }

    /// Answers each message; the label says how long the caller allowed.
    async fn draft(
        &self,
        request: Request<Streaming<v1::DraftRequest>>,
    ) -> Result<Response<Self::DraftStream>, Status> {
        let deadline = request.extensions().get::<Deadline>().copied();
        let label = format!("{:?}", deadline.map(|deadline| deadline.allowed));
        let answers = request.into_inner().map(move |message| {
            message?;
            Ok(v1::DraftResponse {
                message: Some(v1::draft_response::Message::Opened(v1::Opened { identity: identity(label.clone()) })),
            })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn propose(&self, _: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeResponse>, Status> {
        Err(specfleet_protocol::status::version_mismatch("a", "b"))
    }
}

/// A running server and the handles to it.
pub(super) struct Running {
    pub(super) channel: Channel,
    pub(super) readiness: Readiness,
    pub(super) shutdown: Shutdown,
    pub(super) metrics: Metrics,
    pub(super) serving: JoinHandle<Result<(), Error>>,
}

pub(super) fn start(drain_limit: Duration) -> Running {
    let (channel, incoming) = channel::in_memory();
    let readiness = Readiness::new();
    let shutdown = Shutdown::new(drain_limit);
    let metrics = Metrics::local().unwrap();
    let server = GrpcServer::new(readiness.clone(), shutdown.clone(), &metrics).add_service(service());
    Running { channel, readiness, shutdown, metrics, serving: tokio::spawn(server.serve_with_incoming(incoming)) }
}

/// One whole unary call.
pub(super) async fn label(channel: Channel) -> String {
    let mut client = DraftServiceClient::new(channel);
    let response = client.get_identity(v1::DraftServiceGetIdentityRequest::default()).await;
    response.unwrap().into_inner().identity.unwrap().label
}

/// An open session.
pub(super) struct Session {
    requests: mpsc::Sender<v1::DraftRequest>,
    responses: Streaming<v1::DraftResponse>,
}

impl Session {
    pub(super) async fn open(channel: Channel, timeout: Option<Duration>) -> Result<Self, Status> {
        let (requests, outgoing) = mpsc::channel(4);
        let mut request = Request::new(ReceiverStream::new(outgoing));
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        let responses = DraftServiceClient::new(channel).draft(request).await?.into_inner();
        Ok(Self { requests, responses })
    }

    /// Sends a message and returns the label of the answer.
    pub(super) async fn ask(&mut self) -> Result<String, Status> {
        self.requests.send(v1::DraftRequest::default()).await.unwrap();
        match self.responses.message().await?.and_then(|response| response.message) {
            Some(v1::draft_response::Message::Opened(opened)) => Ok(opened.identity.unwrap().label),
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Waits for the server to end the stream.
    pub(super) async fn ended(&mut self) -> Status {
        match self.responses.message().await {
            Err(status) => status,
            Ok(message) => panic!("not ended by the server: {message:?}"),
        }
    }

    /// Half-closes and reads to the end.
    pub(super) async fn close(self) {
        let Self { requests, mut responses } = self;
        drop(requests);
        assert_eq!(responses.message().await.unwrap(), None);
    }
}

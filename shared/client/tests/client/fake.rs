//! A verifier and a draft that answer by script: the last word of the prompt says what happens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use specfleet_client::v1::draft_service_server::{DraftService, DraftServiceServer};
use specfleet_client::v1::verifier_service_server::{VerifierService, VerifierServiceServer};
use specfleet_client::v1::{self, GenerateResponse, TokenOrigin, generate_request, generate_response};
use specfleet_protocol::status::{self, Reason, Refusal};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

mod script;
mod writer;

pub(crate) use script::{TARGET_VERSION, draft_identity, identity_response};
pub(crate) use writer::Conduct;
use writer::Writer;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A running fake. Stops with the test's runtime.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) endpoint: String,
    n_cancelled: Arc<AtomicUsize>,
    with_draft: bool,
    writer: Option<Arc<Writer>>,
}

/// Counts a stream that was dropped before its end.
struct CountDrop {
    counter: Arc<AtomicUsize>,
}

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.counter.fetch_add(1, Ordering::SeqCst);
    }
}

impl Fake {
    pub(crate) async fn start() -> Self {
        Self::serve(true, None).await
    }

    pub(crate) async fn start_without_draft() -> Self {
        Self::serve(false, None).await
    }

    /// Answers whatever it is asked, for audits.
    pub(crate) async fn start_writing(conduct: Conduct) -> Self {
        Self::serve(true, Some(Arc::new(Writer::new(conduct)))).await
    }

    async fn serve(with_draft: bool, writer: Option<Arc<Writer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { endpoint, n_cancelled: Arc::default(), with_draft, writer };
        let server = tonic::transport::Server::builder()
            .add_service(VerifierServiceServer::new(fake.clone()))
            .add_service(DraftServiceServer::new(fake.clone()))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
        tokio::spawn(server);
        fake
    }

    /// Waits until a stream has been dropped before its end.
    pub(crate) async fn cancelled(&self) {
        let seen = async {
            while self.n_cancelled.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), seen).await.expect("the request was not cancelled");
    }

    /// Tokens without end.
    fn endless(&self) -> Responses<GenerateResponse> {
        let guard = CountDrop { counter: self.n_cancelled.clone() };
        let first = stream::iter([Ok(script::started())]);
        let rest = stream::unfold(guard, |guard| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Some((Ok(script::committed(1, &[("and on ", TokenOrigin::Plain)])), guard))
        });
        first.chain(rest).boxed()
    }
}

#[tonic::async_trait]
impl VerifierService for Fake {
    type GenerateStream = Responses<GenerateResponse>;

    async fn generate(&self, request: Request<v1::GenerateRequest>) -> Result<Response<Self::GenerateStream>, Status> {
        let request = request.into_inner();
        if let Some(writer) = &self.writer {
            return Ok(Response::new(stream::iter(writer.answers(&request).into_iter().map(Ok)).boxed()));
        }
        let prompt = script::describe(&request);
        let responses: Vec<Result<GenerateResponse, Status>> = match prompt.rsplit(' ').next().unwrap_or_default() {
            "endless" => return Ok(Response::new(self.endless())),
            "bad" => {
                let refusal = Refusal::new(Reason::InvalidArgument, "the request has 2 bad fields")
                    .field("sampling.top_p", "is 0, must be in (0, 1]")
                    .field("max_tokens", "is 0, must be at least 1");
                return Err(refusal.into());
            }
            "busy" => return Err(status::overloaded("all 4 places are taken", Duration::from_millis(1500))),
            "garbled" => return Err(script::garbled()),
            "garbled-later" => vec![Ok(script::started()), Err(script::garbled())],
            "unpinned" => return Err(status::draft_unavailable("beef")),
            "breaks" => {
                let mut broken = script::answer("", &request);
                broken.truncate(2);
                broken.into_iter().map(Ok).chain([Err(status::model_failed("logit 7 is NaN"))]).collect()
            }
            "truncated" => script::answer("", &request).into_iter().take(2).map(Ok).collect(),
            "twice" => {
                let twice = v1::GenerateRequest { n: 2, ..request };
                script::answers(&twice).into_iter().map(Ok).collect()
            }
            "headless" => script::answer("", &request).into_iter().skip(1).map(Ok).collect(),
            "echo" => script::answer(&prompt, &request).into_iter().map(Ok).collect(),
            _ => script::answers(&request).into_iter().map(Ok).collect(),
        };
        Ok(Response::new(stream::iter(responses).boxed()))
    }

    async fn get_identity(
        &self,
        _: Request<v1::VerifierServiceGetIdentityRequest>,
    ) -> Result<Response<v1::VerifierServiceGetIdentityResponse>, Status> {
        let mut response = self.writer.as_ref().map_or_else(identity_response, |writer| writer.identity());
        if !self.with_draft {
            response.drafts.retain(|draft| draft.state() != v1::DraftState::Ready);
        }
        Ok(Response::new(response))
    }

    async fn list_draft_versions(
        &self,
        _: Request<v1::VerifierServiceListDraftVersionsRequest>,
    ) -> Result<Response<v1::VerifierServiceListDraftVersionsResponse>, Status> {
        let writer = self.writer.as_ref();
        Ok(Response::new(writer.map_or_else(script::draft_versions, |writer| writer.draft_versions())))
    }
}

#[tonic::async_trait]
impl DraftService for Fake {
    type DraftStream = Responses<v1::DraftResponse>;

    async fn get_identity(
        &self,
        _: Request<v1::DraftServiceGetIdentityRequest>,
    ) -> Result<Response<v1::DraftServiceGetIdentityResponse>, Status> {
        Ok(Response::new(v1::DraftServiceGetIdentityResponse { identity: Some(draft_identity()) }))
    }

    async fn draft(
        &self,
        _: Request<tonic::Streaming<v1::DraftRequest>>,
    ) -> Result<Response<Self::DraftStream>, Status> {
        Err(status::draining())
    }

    async fn propose(&self, _: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeResponse>, Status> {
        Err(status::draining())
    }
}

//! A verifier in memory and what is needed to talk to it.

use std::time::Duration;

use specfleet_model::{
    chat_template::{ChatTemplate, SpecialTokens},
    checkpoint::GenerationDefaults,
    load::Loaded,
    scripted::ScriptedModel,
    tokenizer::Tokenizer,
};
use specfleet_protocol::{
    channel,
    v1::{
        self, GenerateRequest, VerifierServiceGetIdentityRequest, generate_request::Prompt, generate_response::Event,
        verifier_service_client::VerifierServiceClient,
    },
};
use specfleet_service::{GrpcServer, Metrics, Readiness, Shutdown};
use specfleet_speculation::TokenId;
use specfleet_verifier_service::{Http, Options, Reasoning, Service, ToolCalls};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tonic::{Request, Status, Streaming, transport::Channel};

mod draft;
mod http;

pub(crate) use draft::{Advance, Answer, FakeDraft, garbled, version_id};
pub(crate) use http::{HttpClient, Reply};

/// Ids of the scripted vocabulary: 0 to 13 spell letters, 14 a long text, 15 ends.
pub(crate) const N_VOCAB: usize = 16;
/// Spells 4096 letters, to fill buffers with.
pub(crate) const LONG: TokenId = 14;
/// The end token.
pub(crate) const END: TokenId = 15;
/// Long enough that only a fault can exceed it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A target that always continues with `next(prefix)`.
pub(crate) fn greedy_target(next: impl Fn(&[TokenId]) -> TokenId + Send + 'static) -> ScriptedModel {
    ScriptedModel::from_fn(N_VOCAB, move |prefix| one_hot(next(prefix)))
}

/// All probability on one token.
pub(crate) fn one_hot(token: TokenId) -> Vec<f32> {
    let mut logits = vec![-30.0; N_VOCAB];
    logits[token as usize] = 30.0;
    logits
}

/// A continuation that depends on the whole prefix, never ends, and has no short cycle.
pub(crate) fn winding(prefix: &[TokenId]) -> TokenId {
    let hash = prefix
        .iter()
        .fold(17_u64, |hash, &token| (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23));
    (hash % 15) as TokenId
}

/// What plain decoding of `next` yields.
pub(crate) fn plain(next: impl Fn(&[TokenId]) -> TokenId, prompt: &[TokenId], n_tokens: usize) -> Vec<TokenId> {
    let mut prefix = prompt.to_vec();
    for _ in 0..n_tokens {
        prefix.push(next(&prefix));
    }
    prefix.split_off(prompt.len())
}

pub(crate) fn tokenizer() -> Tokenizer {
    let mut bytes: Vec<Vec<u8>> = (b'a'..b'a' + 14).map(|letter| vec![letter]).collect();
    bytes.push(vec![b'o'; 4096]);
    bytes.push(b"<end>".to_vec());
    Tokenizer::from_bytes(bytes, &[END], &[END])
}

/// Only the words count, so that a chat's prompt is what its messages say.
fn chat_template() -> ChatTemplate {
    let source = "{% for message in messages %}{{ message.content }}{% endfor %}";
    ChatTemplate::new(source, SpecialTokens::default()).unwrap()
}

/// A request with a greedy setting.
pub(crate) fn request(prompt: &[TokenId], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        prompt: Some(Prompt::TokenIds(v1::TokenIds { ids: prompt.to_vec() })),
        sampling: Some(v1::SamplingParams { temperature: Some(0.0), ..Default::default() }),
        max_tokens: Some(max_tokens),
        ..Default::default()
    }
}

/// The same with `draft_length` draft tokens a round.
pub(crate) fn drafted(prompt: &[TokenId], max_tokens: u32, draft_length: u32) -> GenerateRequest {
    let speculation = v1::SpeculationOptions { max_draft_length: Some(draft_length), ..Default::default() };
    GenerateRequest { speculation: Some(speculation), ..request(prompt, max_tokens) }
}

/// Settings under which only a fault makes a draft late.
pub(crate) fn options() -> Options {
    Options {
        max_sequences: 64,
        max_queue: 512,
        max_queue_wait: Duration::MAX,
        step_tokens: 64,
        verify_rows: 1024,
        max_grammars: 128,
        draft_length: 3,
        max_draft_length: 17,
        draft_wait: PATIENCE,
        untrusted_drafts: Vec::new(),
        tool_calls: ToolCalls::Auto,
        reasoning: Reasoning::Auto,
    }
}

/// A running verifier.
pub(crate) struct Verifier {
    pub(crate) client: VerifierServiceClient<Channel>,
    http: Http,
    http_servers: TaskTracker,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: Shutdown,
}

/// What a client got to see of a request.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) started: Option<v1::Started>,
    pub(crate) rounds: Vec<v1::Committed>,
    pub(crate) finished: Option<v1::Finished>,
    pub(crate) status: Option<Status>,
}

impl Verifier {
    pub(crate) fn start(model: ScriptedModel, drafts: Vec<(String, Channel)>, options: Options) -> Self {
        Self::spelling(model, tokenizer(), drafts, options)
    }

    /// With another vocabulary.
    pub(crate) fn spelling(
        model: ScriptedModel,
        tokenizer: Tokenizer,
        drafts: Vec<(String, Channel)>,
        options: Options,
    ) -> Self {
        let loaded = Loaded {
            model: Box::new(model),
            tokenizer,
            chat_template: Some(chat_template()),
            generation: GenerationDefaults::default(),
            label: "scripted".to_owned(),
        };
        let metrics = Metrics::local().unwrap();
        let service = Service::start(loaded, drafts, options, &metrics.meter()).unwrap();
        let (channel, incoming) = channel::in_memory();
        let (readiness, shutdown) = (Readiness::new(), Shutdown::new(Duration::from_millis(300)));
        readiness.set_ready();
        let http = Http::new(&metrics, readiness.clone(), shutdown.clone());
        http.open(&service);
        let server = GrpcServer::new(readiness, shutdown.clone(), &metrics).add_service(service.grpc());
        let http_servers = TaskTracker::new();
        let for_http = http_servers.clone();
        tokio::spawn(async move {
            server.serve_with_incoming(incoming).await.unwrap();
            for_http.close();
            for_http.wait().await;
            service.stop().await;
        });
        Self { client: VerifierServiceClient::new(channel), http, http_servers, metrics, shutdown }
    }

    /// With one draft, which is ready.
    pub(crate) async fn with_draft(model: ScriptedModel, draft: &FakeDraft, options: Options) -> Self {
        let verifier = Self::start(model, vec![("draft".to_owned(), draft.serve())], options);
        verifier.await_draft(v1::DraftState::Ready).await;
        verifier
    }

    pub(crate) async fn drafts(&self) -> Vec<v1::DraftStatus> {
        let request = VerifierServiceGetIdentityRequest::default();
        self.client.clone().get_identity(request).await.unwrap().into_inner().drafts
    }

    pub(crate) async fn await_draft(&self, state: v1::DraftState) {
        self.until("the draft's state", async || self.drafts().await[0].state() == state).await;
    }

    pub(crate) async fn stream(
        &self,
        request: impl tonic::IntoRequest<GenerateRequest>,
    ) -> Result<Streaming<v1::GenerateResponse>, Status> {
        Ok(self.client.clone().generate(request).await?.into_inner())
    }

    /// Runs a request to its end, however it ends.
    pub(crate) async fn generate(&self, request: GenerateRequest) -> Outcome {
        self.generate_within(Request::new(request)).await
    }

    pub(crate) async fn generate_within(&self, request: Request<GenerateRequest>) -> Outcome {
        let mut outcome = Outcome::default();
        match self.stream(request).await {
            Ok(stream) => outcome.read(stream).await,
            Err(status) => outcome.status = Some(status),
        }
        outcome
    }

    /// Runs a request for several continuations to its end. Each is what a request for it alone would have been, except
    /// that only the first one holds `started`.
    pub(crate) async fn choices(&self, request: GenerateRequest) -> Result<Vec<Outcome>, Status> {
        let mut outcomes: Vec<Outcome> = (0..request.n).map(|_| Outcome::default()).collect();
        let mut stream = self.stream(request).await?;
        while let Some(response) = stream.message().await? {
            let index = match response.event.as_ref().unwrap() {
                Event::Started(_) => 0,
                Event::Committed(round) => round.choice_index,
                Event::Finished(finished) => finished.choice_index,
            };
            assert!(outcomes[0].started.is_some() || matches!(response.event, Some(Event::Started(_))));
            outcomes[index as usize].take(response);
        }
        assert!(outcomes.iter().all(|outcome| outcome.finished.is_some()), "an end for each continuation");
        Ok(outcomes)
    }

    /// The value of a metric, all labels that contain `label` added up.
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics.text().unwrap();
        (text.lines())
            .filter(|line| line.starts_with(name) && line.contains(label))
            .filter(|line| line[name.len()..].starts_with(['{', ' ']))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }

    /// Waits until nothing of any request is left.
    pub(crate) async fn assert_idle(&self) {
        self.until("no running request", async || self.metric("specfleet_verifier_running_requests", "") == 0.0).await;
        assert_eq!(self.metric("specfleet_verifier_waiting_requests", ""), 0.0);
        assert_eq!(self.metric("specfleet_verifier_kv_blocks_used", ""), 0.0);
        let closed = async || self.drafts().await.iter().all(|draft| draft.open_sessions == 0);
        self.until("no open session", closed).await;
    }

    pub(crate) async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds().await {
            assert!(Instant::now() < deadline, "never came: {what}\n{}", self.metrics.text().unwrap());
            sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Outcome {
    pub(crate) async fn read(&mut self, mut stream: Streaming<v1::GenerateResponse>) {
        loop {
            match stream.message().await {
                Ok(Some(response)) => self.take(response),
                Ok(None) => return,
                Err(status) => {
                    self.status = Some(status);
                    return;
                }
            }
        }
    }

    fn take(&mut self, response: v1::GenerateResponse) {
        assert!(self.finished.is_none(), "nothing follows Finished");
        match response.event.unwrap() {
            Event::Started(started) => self.started = Some(started),
            Event::Committed(round) => {
                assert!(self.started.is_some() || round.choice_index > 0, "Started comes first");
                self.rounds.push(round);
            }
            Event::Finished(finished) => self.finished = Some(finished),
        }
    }

    pub(crate) fn tokens(&self) -> Vec<TokenId> {
        self.rounds.iter().flat_map(|round| &round.tokens).map(|token| token.token_id).collect()
    }

    pub(crate) fn text(&self) -> String {
        self.rounds.iter().flat_map(|round| &round.tokens).map(|token| token.text.as_str()).collect()
    }

    pub(crate) fn reason(&self) -> v1::FinishReason {
        self.finished.as_ref().unwrap_or_else(|| panic!("not finished: {:?}", self.status)).reason()
    }

    pub(crate) fn speculation(&self) -> &v1::SpeculationReport {
        self.finished.as_ref().unwrap().speculation.as_ref().unwrap()
    }

    /// Finished, with these tokens, and an account that adds up.
    #[track_caller]
    pub(crate) fn assert_tokens(&self, expected: &[TokenId]) {
        assert_eq!(self.tokens(), expected, "status {:?}", self.status);
        self.assert_consistent();
    }

    #[track_caller]
    pub(crate) fn assert_consistent(&self) {
        let finished = self.finished.as_ref().unwrap_or_else(|| panic!("not finished: {:?}", self.status));
        let n_tokens = self.tokens().len() as u32;
        assert_eq!(finished.usage.unwrap().completion_tokens, n_tokens);
        let report = self.speculation();
        assert_eq!(report.accepted + report.corrected + report.bonus + report.plain_steps + 1, n_tokens);
        let n_tested: u32 = report.tested_per_position.iter().sum();
        assert!(report.accepted <= n_tested && n_tested <= report.proposed, "{report:?}");
        assert_eq!(report.accepted, report.accepted_per_position.iter().sum::<u32>());
        assert_eq!(report.plain_steps, report.plain_reasons.values().sum::<u32>());
        assert_eq!(report.rounds, finished.timings.as_ref().unwrap().decode_steps);
        let timings = finished.timings.as_ref().unwrap();
        let parts = timings.verify_micros + timings.draft_micros + timings.network_micros;
        assert!(parts <= timings.decode_micros + 3 * u64::from(report.rounds), "{timings:?}");
    }
}

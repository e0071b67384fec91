//! A verifying engine and its faces, without a port: what [`run`](crate::run()) serves over TCP and tests serve in
//! memory.

use std::{io, sync::Arc, time::Duration};

use opentelemetry::metrics::Meter;
use specfleet_model::{
    identity::{Identity, VocabularyFingerprint},
    kv_cache::BLOCK_TOKENS,
    load::Loaded,
};
use specfleet_protocol::{
    convert::DistributionForm,
    limits::{self, MessageLimits},
    v1::{self, verifier_service_server::VerifierServiceServer},
};
use specfleet_service::{Progress, identity};
use tonic::transport::Channel;
use tracing::info;

use crate::{
    api::grpc::Grpc,
    dialect::{Dialect, Reasoning, ToolCalls},
    drafting::{Pool, Target, UntrustedDraft},
    engine::{self, Decider, Handle},
    request::{MAX_CHOICES, Rules},
    telemetry::{self, Metrics},
    texts::Texts,
    wire,
};

/// What the target's identity says about how its tokens come about: drafts have policies, the target just decides.
const POLICY: &str = "target";

/// The least that a request may take, so that a prompt given as text is refused for its tokens and not for its bytes.
const REQUEST_BYTES: usize = 4 << 20;

/// Bounds and defaults of a verifier.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests that run at the same time.
    pub max_sequences: usize,
    /// Requests that may wait for others to end.
    pub max_queue: usize,
    /// The longest that a request may be expected to wait for others to end; beyond, it is refused.
    pub max_queue_wait: Duration,
    /// Rows of one forward pass: prompt tokens and rounds together. At least one round of the greatest length.
    pub step_tokens: usize,
    /// Rows of all rounds of a pass up to which drafts are asked for: with more requests drafts get shorter, down to none.
    pub verify_rows: usize,
    /// Continuations with a grammar that may run or wait at a time.
    pub max_grammars: usize,
    /// Draft tokens a round, where a request does not say.
    pub draft_length: usize,
    /// The most that a request may ask for.
    pub max_draft_length: usize,
    /// How long a round waits for its proposal, where a request does not say.
    pub draft_wait: Duration,
    /// Draft versions whose tokens are judged as point masses, whatever they report.
    pub untrusted_drafts: Vec<UntrustedDraft>,
    /// In which form the model calls functions.
    pub tool_calls: ToolCalls,
    /// How the model thinks before it answers.
    pub reasoning: Reasoning,
}

/// Why a verifier cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The proposals of its drafts could be larger than any message may be.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// A round of the greatest length would never get its rows.
    #[error(
        "a step of {step_tokens} tokens is too small for a round of {needed}: the draft length's limit and one more; \
         raise --step-tokens or lower --max-draft-length"
    )]
    StepTooSmall {
        /// As configured.
        step_tokens: usize,
        /// At least.
        needed: usize,
    },
    /// The KV memory cannot hold a sequence of two tokens.
    #[error("the KV memory has no block of {BLOCK_TOKENS} tokens; raise --kv-tokens")]
    NoKvMemory,
    /// The operating system gave no thread.
    #[error("cannot start the engine's thread: {0}")]
    Thread(#[from] io::Error),
}

/// A verifier that is ready to be served. Dropping it ends its requests.
pub struct Service {
    shared: Arc<Shared>,
    identity: Identity,
    request_bytes: usize,
}

/// What every call uses.
pub(crate) struct Shared {
    pub(crate) engine: Handle,
    pub(crate) rules: Rules,
    pub(crate) dialect: Dialect,
    pub(crate) texts: Texts,
    pub(crate) pool: Arc<Pool>,
    /// With the vocabulary's token digests.
    pub(crate) identity: v1::Identity,
}

impl Service {
    /// Starts an engine over `loaded`, drafted for through `drafts`: pairs of a name for people and a channel, in order of
    /// preference. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`enum@Error`].
    pub fn start(
        loaded: Loaded,
        drafts: Vec<(String, Channel)>,
        options: Options,
        meter: &Meter,
    ) -> Result<Self, Error> {
        Self::start_deciding(loaded, drafts, options, meter, Decider::default())
    }

    pub(crate) fn start_deciding(
        loaded: Loaded,
        drafts: Vec<(String, Channel)>,
        options: Options,
        meter: &Meter,
        decider: Decider,
    ) -> Result<Self, Error> {
        let Loaded { mut model, tokenizer, chat_template, generation, label } = loaded;
        let needed = options.max_draft_length.max(options.draft_length) + 1;
        if options.step_tokens < needed {
            return Err(Error::StepTooSmall { step_tokens: options.step_tokens, needed });
        }
        // A sequence that is longer than the whole KV memory could never run.
        let context_length = model.description().context_length.min(model.kv().n_blocks() * BLOCK_TOKENS);
        if context_length == 0 {
            return Err(Error::NoKvMemory);
        }
        let description = model.description();
        let n_vocab = description.vocab_size;
        let mut identity = Identity::of_model(description, &tokenizer, &label, POLICY);
        identity.context_length = wire::count(context_length);
        let limits = MessageLimits::new(n_vocab, context_length, options.max_draft_length, DistributionForm::Sparse)?;
        let vocabulary = VocabularyFingerprint::new(&tokenizer, n_vocab);
        let target = Target { vocabulary, tokenizer: tokenizer.clone(), n_vocab, limits };
        let pool = Pool::start(drafts, target, options.untrusted_drafts);
        telemetry::observe_drafts(meter, &pool);

        let Options { draft_length, max_draft_length, draft_wait, .. } = options;
        let engine_options = engine::Options {
            max_sequences: options.max_sequences,
            max_queue: options.max_queue,
            max_queue_wait: options.max_queue_wait,
            step_tokens: options.step_tokens,
            verify_rows: options.verify_rows,
        };
        let metrics = Arc::new(Metrics::new(meter));
        let engine = engine::spawn(engine_options, model, tokenizer.clone(), pool.clone(), metrics, decider)?;
        let end_tokens = [tokenizer.end_tokens(), &generation.end_tokens].concat();
        let grammars = tokenizer.grammars(&end_tokens).map(|grammars| grammars.with_places(options.max_grammars));
        let dialect = Dialect::of_model(options.tool_calls, options.reasoning, &tokenizer, chat_template.as_ref());
        info!("{dialect}");
        let rules = Rules {
            tokenizer,
            chat_template,
            generation,
            n_vocab,
            context_length,
            draft_length,
            max_draft_length,
            draft_wait,
            max_choices: MAX_CHOICES.min(options.max_sequences + options.max_queue),
            grammars,
        };
        let shared = Arc::new(Shared {
            engine,
            rules,
            dialect,
            texts: Texts::new(),
            pool,
            identity: identity::to_wire(&identity, true),
        });
        let serving = Arc::downgrade(&shared);
        let occupancy = move || Some(serving.upgrade()?.rules.grammars.as_ref().ok()?.occupancy());
        telemetry::observe_grammars(meter, occupancy);
        Ok(Self { shared, identity, request_bytes: limits.request_bytes.max(REQUEST_BYTES) })
    }

    /// What it runs.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What is known about its drafts, in configured order.
    pub fn drafts(&self) -> Vec<v1::DraftStatus> {
        self.shared.pool.statuses()
    }

    /// The gRPC service, with message sizes limited to what the configuration can need. May be called more than once.
    pub fn grpc(&self) -> VerifierServiceServer<Grpc> {
        VerifierServiceServer::new(Grpc::new(self.shared.clone())).max_decoding_message_size(self.request_bytes)
    }

    /// For faces.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Whether the engine moves, for [`Progress::watch`].
    pub fn progress(&self) -> &Progress {
        self.shared.engine.progress()
    }

    /// Resolves when the engine has ended, which it does only when it is stopped or has a fault.
    pub async fn ended(&self) {
        self.shared.engine.ended().await;
    }

    /// Ends what still runs, each with an error that says so, and waits for the engine.
    pub async fn stop(self) {
        self.shared.engine.stop();
        self.shared.engine.ended().await;
    }
}

//! A drafting engine and its gRPC face, without a port: what `run` serves over TCP and tests serve in memory.

use std::{io, num::NonZeroUsize, sync::Arc, time::Duration};

use opentelemetry::metrics::Meter;
use specfleet_grammar::{DEFAULT_PLACES, Grammars};
use specfleet_model::{batch::LanguageModel, identity::Identity, tokenizer::Tokenizer};
use specfleet_protocol::{
    convert::DistributionForm,
    limits::{self, MessageLimits},
    v1::draft_service_server::DraftServiceServer,
};
use specfleet_service::{Progress, identity};
use specfleet_speculation::propose::Support;
use tracing::info;

use crate::{
    engine::{Ended, Engine, Limits, drafter::Drafter},
    lookup::LookupDrafter,
    model::{ModelDrafter, Policy},
    telemetry::Metrics,
};

mod conversation;
mod grpc;
mod refusal;
mod shared;

pub use self::grpc::Grpc;
use self::shared::Shared;

/// Lookup proposes nothing that it was not sent, so that there are no ids it does not know.
const ANY_VOCABULARY: usize = usize::MAX;

/// Bounds of a draft service, and how it reports q.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tokens in one proposal. Longer ones that are asked for come shorter.
    pub max_draft_length: NonZeroUsize,
    /// Sessions held at once; one more closes the least recently used idle one.
    pub max_sessions: NonZeroUsize,
    /// Sessions with a grammar at once. One more is drafted for without.
    pub max_grammars: usize,
    /// Rows of long prefixes in one forward pass. More is quicker for them and slower for everybody else.
    pub prefill_rows: NonZeroUsize,
    /// How many ids a sparse distribution keeps.
    pub support: Support,
    /// A model's proposal ends when the chance that all of it passes, as the model sees it, is below this; 0 for never.
    pub least_chance: f64,
    /// Before a model is asked: n-grams of this size whose earlier continuation is proposed.
    pub recalled_ngram: Option<NonZeroUsize>,
    /// A model's proposal under a grammar has one token unless its masks are known to take no more than this.
    pub dearest_mask: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // No measured draft gains by more than a few; prompt lookup does, where text repeats.
            max_draft_length: const_size(16),
            // A verifier's worth of concurrent requests, several times over. Memory runs out before.
            max_sessions: const_size(256),
            // Usually a megabyte each, and 2 GiB at the worst.
            max_grammars: DEFAULT_PLACES,
            // A CPU is compute-bound from 16 rows on, so that more would only be longer.
            prefill_rows: const_size(64),
            support: Support::default(),
            // Measured on the distilled SmolLM2 draft: flat from 0.25 to 0.4, greedy and at temperature 0.8.
            least_chance: 0.3,
            recalled_ngram: None,
            // Those of most schemas take a tenth of it, and with it a proposal takes a few milliseconds more.
            dearest_mask: Duration::from_millis(1),
        }
    }
}

/// How prompt lookup looks and how much it holds.
#[derive(Clone, Copy, Debug)]
pub struct LookupOptions {
    /// The longest n-gram that is searched for.
    pub longest_ngram: NonZeroUsize,
    /// Tokens that all sessions together may hold; also the longest sequence of one.
    pub max_tokens: NonZeroUsize,
}

impl Default for LookupOptions {
    fn default() -> Self {
        // Three tokens are often enough to be right and not too many to occur again. The memory is that of a small model.
        Self { longest_ngram: const_size(3), max_tokens: const_size(1 << 20) }
    }
}

const fn const_size(size: usize) -> NonZeroUsize {
    NonZeroUsize::new(size).expect("defaults are not zero")
}

/// Why a draft service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its proposals could be larger than any message may be.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// Not even one session with one proposal fits.
    #[error(
        "a session can hold {limit} tokens (the lower of context length and memory), which is not enough for a prompt \
         and a proposal of {draft_length}; raise --kv-tokens or lower --max-draft-length"
    )]
    MemoryTooSmall {
        /// Tokens that the longest session can hold.
        limit: usize,
        /// Tokens in the longest proposal.
        draft_length: usize,
    },
    /// The operating system gave no thread.
    #[error("cannot start the thread of the drafting engine: {0}")]
    Thread(#[from] io::Error),
}

/// A draft service that is ready to be served.
pub struct Service {
    shared: Arc<Shared>,
    identity: Identity,
    message_limits: MessageLimits,
    progress: Progress,
    ended: Ended,
}

impl Service {
    /// Drafts with a language model.
    pub fn from_model(
        model: Box<dyn LanguageModel>,
        tokenizer: &Tokenizer,
        label: &str,
        options: Options,
        meter: &Meter,
    ) -> Result<Self, Error> {
        let description = model.description();
        let identity = Identity::of_model(description, tokenizer, label, &policy(&options));
        let n_vocab = description.vocab_size;
        let Options { prefill_rows, least_chance, recalled_ngram, dearest_mask, .. } = options;
        let recalled_ngram = recalled_ngram.map(NonZeroUsize::get);
        let policy = Policy { least_chance, recalled_ngram, dearest_mask };
        let grammars = tokenizer.grammars(tokenizer.end_tokens());
        let grammars = grammars.inspect_err(|error| info!(%error, "drafting without grammars")).ok();
        let grammars = grammars.map(|grammars| grammars.with_places(options.max_grammars));
        let drafter = ModelDrafter::new(model, prefill_rows.get(), policy);
        Self::start(drafter, identity, n_vocab, grammars, options, meter)
    }

    /// Drafts by prompt lookup. Fits every vocabulary, since it proposes only ids that it was sent.
    pub fn from_lookup(label: &str, lookup: LookupOptions, options: Options, meter: &Meter) -> Result<Self, Error> {
        let (longest_ngram, max_tokens) = (lookup.longest_ngram.get(), lookup.max_tokens.get());
        let policy = format!("prompt lookup, n-grams up to {longest_ngram}");
        let context_length = u32::try_from(max_tokens).unwrap_or(u32::MAX);
        let identity = Identity::of_lookup(label, &policy, context_length);
        let drafter = LookupDrafter::new(longest_ngram, max_tokens);
        Self::start(drafter, identity, ANY_VOCABULARY, None, options, meter)
    }

    fn start<D: Drafter>(
        drafter: D,
        mut identity: Identity,
        n_vocab: usize,
        grammars: Option<Grammars>,
        options: Options,
        meter: &Meter,
    ) -> Result<Self, Error> {
        let max_draft_length = options.max_draft_length.get();
        let limit = drafter.limit();
        if limit <= max_draft_length {
            return Err(Error::MemoryTooSmall { limit, draft_length: max_draft_length });
        }
        // Lookup has no vocabulary and sends no distribution but points.
        let n_weighed = if n_vocab == ANY_VOCABULARY { 0 } else { n_vocab };
        let context_length = identity.context_length as usize;
        let message_limits = MessageLimits::new(n_weighed, context_length, max_draft_length, DistributionForm::Dense)?;
        // What verifiers may count on. A prompt between the two is still received, to be refused with this number.
        identity.context_length = u32::try_from(limit).unwrap_or(u32::MAX);
        let metrics = Arc::new(Metrics::new(meter));
        let limits = Limits { max_sessions: options.max_sessions.get(), max_draft_length };
        let progress = Progress::new();
        let (engine, ended) = Engine::start(drafter, limits, metrics.clone(), progress.clone())?;
        let shared = Arc::new(Shared {
            engine,
            identity: identity::to_wire(&identity, true),
            n_vocab,
            support: options.support,
            metrics,
            grammars: grammars.map(Arc::new),
            compiling: Shared::turns_to_compile(),
        });
        Ok(Self { shared, identity, message_limits, progress, ended })
    }

    /// What it runs.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The gRPC service, with message sizes limited to what the configuration can need. May be called more than once.
    pub fn grpc(&self) -> DraftServiceServer<Grpc> {
        DraftServiceServer::new(Grpc::new(self.shared.clone()))
            .max_decoding_message_size(self.message_limits.request_bytes)
            .max_encoding_message_size(self.message_limits.proposal_bytes)
    }

    /// Whether the engine moves, for [`Progress::watch`].
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Resolves when the engine has ended: after the last session and the last clone of [`Service::grpc`] are gone, or
    /// because of a fault. Keep it apart from the service to tell the two.
    pub async fn ended(self) {
        let Self { shared, ended, .. } = self;
        drop(shared);
        // An error only says that the sender was dropped, which is the message.
        let _ = ended.await;
    }
}

/// What the identity says about how proposals come about: another policy is another version.
fn policy(options: &Options) -> String {
    let mut policy = match options.support {
        Support::Top(n) => format!("shaped, top {n}, u32 weights, drawn from the weights"),
        Support::Full => "shaped, f32 probabilities, drawn from them".into(),
    };
    if options.least_chance > 0.0 {
        policy.push_str(&format!("; ends below a chance of {}", options.least_chance));
    }
    if let Some(size) = options.recalled_ngram {
        policy.push_str(&format!("; prompt lookup first, n-grams of {size}"));
    }
    policy
}

#[cfg(test)]
mod tests;

//! The pair in one process: the same services and the same gRPC, over pipes in memory instead of sockets.
//!
//! [`Pair`] is what most tests want. [`Draft`] and [`Verifier`] are its halves, for tests with several drafts, with a
//! draft that ends in the middle, or with one that is not ours.

use std::time::Duration;

use specfleet_client::Client;
use specfleet_model::load::{LoadOptions, Loaded, load};

use crate::{binaries::from_environment, real_models};

mod draft;
mod server;
mod verifier;

pub use self::{draft::Draft, server::GrpcService, verifier::Verifier};

/// What the two services run with.
#[derive(Clone)]
pub struct Settings {
    /// The verifier's side.
    pub verifier: specfleet_verifier_service::Options,
    /// The draft's side.
    pub draft: specfleet_draft_service::Options,
}

impl Default for Settings {
    /// The programs' defaults.
    fn default() -> Self {
        let verifier = specfleet_verifier_service::Options {
            max_sequences: 64,
            max_queue: 256,
            max_queue_wait: Duration::from_secs(60),
            step_tokens: 128,
            verify_rows: 6,
            max_grammars: 128,
            draft_length: 5,
            max_draft_length: 8,
            draft_wait: Duration::from_millis(30),
            untrusted_drafts: Vec::new(),
            tool_calls: specfleet_verifier_service::ToolCalls::Auto,
            reasoning: specfleet_verifier_service::Reasoning::Auto,
        };
        Self { verifier, draft: specfleet_draft_service::Options::default() }
    }
}

/// A verifier with one draft. Both live as long as this value.
pub struct Pair {
    /// Talks to the verifier.
    pub client: Client,
    /// The verifier-service.
    pub verifier: Verifier,
    /// The draft-service.
    pub draft: Draft,
}

impl Pair {
    /// A pair over two models that are loaded already; returns when the draft is ready.
    pub async fn start(target: Loaded, draft: Loaded, settings: Settings) -> Self {
        let draft = Draft::start(draft, settings.draft);
        let drafts = vec![("in memory".to_owned(), draft.channel())];
        let verifier = Verifier::start(target, drafts, settings.verifier);
        verifier.wait_for_drafts().await;
        Self { client: verifier.client.clone(), verifier, draft }
    }

    /// A pair over the real models, which `tests/run` names in environment variables (see [`real_models`]).
    pub async fn from_environment(settings: Settings) -> Self {
        let draft = real_models::draft();
        let target = load(&from_environment("SPECFLEET_TEST_TARGET"), &LoadOptions::default());
        Self::start(target.unwrap_or_else(|error| panic!("cannot load the target: {error}")), draft, settings).await
    }
}

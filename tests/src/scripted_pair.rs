//! The pair with models that are tables: the production services around two models whose laws a test knows exactly.
//!
//! ```no_run
//! use specfleet_tests::scripted_pair::{ScriptedPair, request, settings};
//!
//! # async fn example() {
//! let pair = ScriptedPair::start("* -> 0:1 1:2 2:3", "* -> 0:3 1:2 2:1", settings()).await;
//! let outcome = pair.generate(request(&[7], 100)).await;
//! assert_eq!(outcome.token_ids().len(), 100);
//! # }
//! ```
//!
//! Tables are those of [`specfleet_model::scripted::table`], over sixteen ids: 0 to 14 spell the letters from `a`, and
//! 15 ends a text.

use std::time::Duration;

use specfleet_client::{
    Client, Error,
    v1::{GenerateRequest, SamplingParams, TokenIds, generate_request::Prompt},
};
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, scripted::ScriptedModel, tokenizer::Tokenizer};
use specfleet_speculation::TokenId;

use crate::{
    in_process::{Draft, Pair, Settings, Verifier},
    outcome::Outcome,
};

/// Ids of the vocabulary.
pub const N_VOCAB: usize = 16;
/// The end token.
pub const END: TokenId = 15;

/// Settings under which only a fault makes a draft late, no load lets drafts rest, and drafts are as long as asked for.
pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.draft.least_chance = 0.0;
    settings.draft.dearest_mask = Duration::MAX;
    settings.verifier.verify_rows = 1024;
    settings.verifier.draft_wait = Duration::from_secs(20);
    settings.verifier.max_draft_length = 16;
    settings
}

/// A model that follows a table.
pub fn model(table: &str) -> ScriptedModel {
    ScriptedModel::from_table(table, N_VOCAB).unwrap_or_else(|error| panic!("{error}, in the table\n{table}"))
}

/// A scripted model with the vocabulary of this module.
pub fn loaded(model: ScriptedModel) -> Loaded {
    Loaded {
        model: Box::new(model),
        tokenizer: tokenizer(),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: "scripted".to_owned(),
    }
}

/// The vocabulary of this module.
pub fn tokenizer() -> Tokenizer {
    let letters = (b'a'..).take(N_VOCAB - 1).map(|letter| vec![letter]);
    Tokenizer::from_bytes(letters.chain([b"<end>".to_vec()]).collect(), &[END], &[END])
}

/// A request at temperature 1 without truncation and without a seed. It ends after `max_tokens` or at [`END`].
pub fn request(prompt: &[TokenId], max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        prompt: Some(Prompt::TokenIds(TokenIds { ids: prompt.to_vec() })),
        sampling: Some(SamplingParams::default()),
        max_tokens: Some(max_tokens),
        ..GenerateRequest::default()
    }
}

/// The production services around scripted models.
pub struct ScriptedPair {
    /// Talks to the verifier.
    pub client: Client,
    /// The verifier-service.
    pub verifier: Verifier,
    /// The draft-service.
    pub draft: Draft,
}

impl ScriptedPair {
    /// A pair of two tables, with the draft ready.
    pub async fn start(target: &str, draft: &str, settings: Settings) -> Self {
        Self::of_models(model(target), model(draft), settings).await
    }

    /// A pair of two models that need not be tables, or are slow, or know fewer ids.
    pub async fn of_models(target: ScriptedModel, draft: ScriptedModel, settings: Settings) -> Self {
        let Pair { client, verifier, draft } = Pair::start(loaded(target), loaded(draft), settings).await;
        Self { client, verifier, draft }
    }

    /// Runs a request to its end.
    ///
    /// # Errors
    /// If the verifier refuses it or ends it with an error.
    pub async fn run(&self, request: GenerateRequest) -> Result<Outcome, Error> {
        Outcome::of(&self.client, request).await
    }

    /// Runs a request that nothing is wrong with.
    pub async fn generate(&self, request: GenerateRequest) -> Outcome {
        self.run(request).await.unwrap_or_else(|error| panic!("the request failed: {error}"))
    }
}

//! Drafts of every kind, ready to be chosen from by pin.

use specfleet_client::v1::SpeculationOptions;
use specfleet_draft_service::Options;
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, tokenizer::Tokenizer};
use tonic::transport::Channel;

use crate::{
    in_process::Draft,
    known_text::{Knack, KnownText},
};

/// The knacks that [`Drafts::of_every_kind`] has.
const KNACKS: [(&str, Knack); 3] =
    [("perfect", Knack::Perfect), ("always wrong", Knack::AlwaysWrong), ("erratic", Knack::Erratic)];

/// Draft services by name. They may serve several verifiers, one after the other or at once.
pub struct Drafts {
    drafts: Vec<(String, Draft)>,
}

impl Drafts {
    /// A model's draft, prompt lookup, and drafts that know `text`: perfect, always wrong, and erratic.
    pub fn of_every_kind(model: Loaded, text: &KnownText) -> Self {
        let tokenizer = model.tokenizer.clone();
        let mut drafts = vec![
            // As many tokens as are asked for.
            ("model".to_owned(), Draft::start(model, options())),
            ("lookup".to_owned(), Draft::lookup(options())),
        ];
        drafts.extend(KNACKS.map(|(name, knack)| (name.to_owned(), knowing(text, knack, &tokenizer))));
        Self { drafts }
    }

    /// One more.
    pub fn add(&mut self, name: &str, draft: Draft) {
        self.drafts.push((name.to_owned(), draft));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.drafts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.drafts.is_empty()
    }

    /// What the draft is called.
    pub fn name(&self, index: usize) -> &str {
        &self.drafts[index].0
    }

    /// The ways to them, as a verifier wants them.
    pub fn channels(&self) -> Vec<(String, Channel)> {
        self.drafts.iter().map(|(name, draft)| (name.clone(), draft.channel())).collect()
    }

    /// Speculation with this draft and no other.
    pub fn only(&self, index: usize, draft_length: u32) -> SpeculationOptions {
        only(&self.drafts[index].1, draft_length)
    }
}

/// A draft that is never unsure: its proposals are as long as they are asked for.
pub fn options() -> Options {
    Options { least_chance: 0.0, ..Options::default() }
}

/// A draft service that knows `text`, over the vocabulary of `tokenizer`.
pub fn knowing(text: &KnownText, knack: Knack, tokenizer: &Tokenizer) -> Draft {
    let loaded = Loaded {
        model: text.model(knack),
        tokenizer: tokenizer.clone(),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: format!("{knack:?}"),
    };
    Draft::start(loaded, options())
}

/// Speculation with this draft and no other.
pub fn only(draft: &Draft, draft_length: u32) -> SpeculationOptions {
    let pin = draft.version_id.clone();
    SpeculationOptions { pin, require_pin: true, max_draft_length: Some(draft_length), ..Default::default() }
}

/// No speculation.
pub fn off() -> SpeculationOptions {
    SpeculationOptions { off: true, ..Default::default() }
}

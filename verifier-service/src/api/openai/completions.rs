//! `POST /v1/completions`.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use specfleet_model::tokenizer::{Detokenizer, Tokenizer};
use specfleet_protocol::v1::{self, generate_request::Prompt};

use super::{
    Entered,
    answer::Spelling,
    body::Fields,
    call::{self, Call, Wishes},
    content::Content,
    failure::Failure,
    logprobs::CompletionLogprobs,
    sampling::Settings,
    unsupported,
};

/// What this endpoint has always given to clients that do not say how much they want.
const DEFAULT_MAX_TOKENS: u32 = 16;

#[derive(Debug, Deserialize)]
struct Completion {
    prompt: Prompts,
    echo: Option<bool>,
    /// How many of the likeliest tokens are wanted beside each token.
    logprobs: Option<u32>,
}

/// The four forms of a prompt.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a prompt is a string, a list of strings, a list of token ids or a list of such lists")]
enum Prompts {
    Text(String),
    // Before the other lists: an empty list is a prompt without a token, which is refused.
    Ids(Vec<u32>),
    Texts(Vec<String>),
    IdLists(Vec<Vec<u32>>),
}

/// Answers a completion request.
pub(super) async fn answer(entered: Entered, wishes: Wishes, fields: Fields) -> Result<Response, Failure> {
    let settings: Settings = fields.read()?;
    entered.check_model(settings.model.as_deref())?;
    unsupported::refuse_in_completions(&fields)?;
    let Completion { prompt, echo, logprobs: top_logprobs } = fields.read()?;
    let (prompts, echo) = (prompt.into_wire(), echo.unwrap_or(false));
    // Before anything is made for each of them.
    call::check_n_prompts(&entered, prompts.len())?;
    let prompt_logprobs = echo && top_logprobs.is_some();
    let echoes = match echo {
        true => prompts.iter().map(|prompt| text_of(&entered.shared.rules.tokenizer, prompt)).collect(),
        false => Vec::new(),
    };
    let several = prompts.len() > 1;
    let requests = (prompts.into_iter().enumerate()).map(|(index, prompt)| {
        let request_id = if several { format!("{}-{index}", wishes.request_id) } else { wishes.request_id.clone() };
        let request = settings.to_wire(&request_id, Some(DEFAULT_MAX_TOKENS))?;
        Ok(v1::GenerateRequest { prompt: Some(prompt), top_logprobs, prompt_logprobs, ..request })
    });
    let requests: Vec<_> = requests.collect::<Result<_, Failure>>()?;
    let n_of_prompt = requests.first().map_or(1, |request| request.n as usize);
    Call { entered, wishes, settings, requests }.answer(Completions { echoes, n_of_prompt }).await
}

impl Prompts {
    fn into_wire(self) -> Vec<Prompt> {
        let ids = |ids| Prompt::TokenIds(v1::TokenIds { ids });
        match self {
            Self::Text(text) => vec![Prompt::Text(text)],
            Self::Ids(prompt) => vec![ids(prompt)],
            Self::Texts(texts) => texts.into_iter().map(Prompt::Text).collect(),
            Self::IdLists(lists) => lists.into_iter().map(ids).collect(),
        }
    }
}

fn text_of(tokenizer: &Tokenizer, prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::TokenIds(v1::TokenIds { ids }) => decoded(tokenizer, ids),
        Prompt::Chat(_) => String::new(),
    }
}

/// The text of a list of ids.
pub(super) fn decoded(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut detokenizer = Detokenizer::new();
    let mut text: String = ids.iter().map(|&id| detokenizer.push(tokenizer, id)).collect();
    text.push_str(&detokenizer.finish());
    text
}

/// How this endpoint spells continuations.
struct Completions {
    /// The prompts' texts, if they are wanted before those of their continuations.
    echoes: Vec<String>,
    n_of_prompt: usize,
}

#[derive(Serialize)]
struct Choice {
    index: usize,
    text: String,
    logprobs: Option<CompletionLogprobs>,
    finish_reason: Option<&'static str>,
}

impl Choice {
    fn new(index: usize, content: Content, finish_reason: Option<&'static str>) -> Self {
        let Content { text, tokens, offset } = content;
        let logprobs = tokens.map(|tokens| CompletionLogprobs::new(tokens, offset));
        Self { index, text, logprobs, finish_reason }
    }
}

impl Spelling for Completions {
    const OBJECT: &'static str = "text_completion";
    const CHUNK: &'static str = "text_completion";
    const ID_PREFIX: &'static str = "cmpl-";
    type Choice = Choice;
    type Piece = Choice;

    fn whole(&self, index: usize, content: Content, reason: &'static str) -> Choice {
        Choice::new(index, content, Some(reason))
    }

    fn opening(&self, _: usize) -> Option<Choice> {
        None
    }

    fn echo(&self, index: usize) -> Option<&str> {
        self.echoes.get(index / self.n_of_prompt).map(String::as_str)
    }

    fn piece(&self, index: usize, content: Content) -> Choice {
        Choice::new(index, content, None)
    }

    fn ending(&self, index: usize, reason: &'static str) -> Choice {
        Choice::new(index, Content::default(), Some(reason))
    }
}

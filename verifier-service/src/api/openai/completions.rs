//! `POST /v1/completions`.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    request_id,
    sampling::Settings,
    unsupported,
};
use crate::{error::Error, service::Shared};

/// What this endpoint has always given to clients that do not say how much they want.
const DEFAULT_MAX_TOKENS: u32 = 16;

#[derive(Debug, Deserialize)]
struct Completion {
    echo: Option<bool>,
    /// How many of the likeliest tokens are wanted beside each token.
    logprobs: Option<u32>,
}

const FORMS: &str = "a prompt is a string, a list of strings, a list of token ids or a list of such lists";

/// What is left of a body when it is read.
struct Asked {
    settings: Settings,
    /// One for each prompt.
    requests: Vec<v1::GenerateRequest>,
    /// The prompts' texts, if they are wanted.
    echoes: Vec<String>,
}

/// Answers a completion request.
pub(super) async fn answer(entered: Entered, wishes: Wishes, fields: Fields) -> Result<Response, Failure> {
    let id = wishes.request_id.clone();
    let Asked { settings, requests, echoes } =
        fields.make(&entered.shared, move |shared, fields| Asked::new(shared, &id, fields)).await?;
    let n_of_prompt = requests.first().map_or(1, |request| request.n as usize);
    Call { entered, wishes, settings, requests }.answer(Completions { echoes, n_of_prompt }).await
}

impl Asked {
    fn new(shared: &Shared, id: &str, mut fields: Fields) -> Result<Self, Failure> {
        let prompts = fields.take("prompt");
        let settings: Settings = fields.read()?;
        shared.check_model(settings.model.as_deref())?;
        unsupported::refuse_in_completions(&fields)?;
        let Completion { echo, logprobs: top_logprobs } = fields.read()?;
        let (prompts, echo) = (read_prompts(prompts, shared.rules.context_length)?, echo.unwrap_or(false));
        // Before anything is made for each of them.
        let n_prompts = prompts.len();
        call::check_n_prompts(shared, n_prompts)?;
        let prompt_logprobs = echo && top_logprobs.is_some();
        let echoes = match echo {
            true => prompts.iter().map(|prompt| text_of(&shared.rules.tokenizer, prompt)).collect(),
            false => Vec::new(),
        };
        let requests = prompts.into_iter().enumerate().map(|(index, prompt)| {
            let request_id = request_id::of_prompt(id, index, n_prompts);
            let request = settings.to_wire(&request_id, Some(DEFAULT_MAX_TOKENS))?;
            Ok(v1::GenerateRequest { prompt: Some(prompt), top_logprobs, prompt_logprobs, ..request })
        });
        let requests = requests.collect::<Result<_, Failure>>()?;
        Ok(Self { settings, requests, echoes })
    }
}

/// The four forms of a prompt, of which none may have more ids than there are positions.
fn read_prompts(value: Option<Value>, context_length: usize) -> Result<Vec<Prompt>, Failure> {
    let wrong = || Failure::invalid("prompt", format!("prompt: {FORMS}"));
    let text = |value| match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        _ => Err(wrong()),
    };
    let ids = |value| match value {
        Value::Array(ids) => read_ids(&ids, context_length),
        _ => Err(wrong()),
    };
    match value {
        Some(Value::String(text)) => Ok(vec![Prompt::Text(text)]),
        Some(Value::Array(items)) => match items.first() {
            // An empty list is a prompt without a token, which is refused.
            None | Some(Value::Number(_)) => Ok(vec![read_ids(&items, context_length)?]),
            Some(Value::String(_)) => items.into_iter().map(text).collect(),
            Some(_) => items.into_iter().map(ids).collect(),
        },
        _ => Err(wrong()),
    }
}

fn read_ids(ids: &[Value], context_length: usize) -> Result<Prompt, Failure> {
    let n_tokens = ids.len();
    if n_tokens >= context_length {
        return Err(Error::ContextLength { n_tokens, context_length }.into());
    }
    let id = |(index, id): (usize, &Value)| {
        let wrong = || format!("prompt holds {id} at index {index} of a list of token ids; {FORMS}");
        id.as_u64().and_then(|id| id.try_into().ok()).ok_or_else(|| Failure::invalid("prompt", wrong()))
    };
    let ids = ids.iter().enumerate().map(id).collect::<Result<_, _>>()?;
    Ok(Prompt::TokenIds(v1::TokenIds { ids }))
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
        let Content { parts, tokens, offset } = content;
        let logprobs = tokens.map(|tokens| CompletionLogprobs::new(tokens, offset));
        Self { index, text: parts.text, logprobs, finish_reason }
    }
}

impl Spelling for Completions {
    const OBJECT: &'static str = "text_completion";
    const CHUNK: &'static str = "text_completion";
    const ID_PREFIX: &'static str = "cmpl-";
    type Choice = Choice;
    type Piece = Choice;

    fn whole(&self, index: usize, mut content: Content, reason: Option<&'static str>) -> Choice {
        content.parts.text.insert_str(0, self.echo(index).unwrap_or_default());
        Choice::new(index, content, reason)
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

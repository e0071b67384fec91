//! `POST /tokenize` and `POST /detokenize`: what the model sees of a text, and back.

use axum::{
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
};
use serde::{Deserialize, Serialize};
use specfleet_protocol::v1::generate_request::Prompt;
use specfleet_speculation::TokenId;

use super::{Http, body::Fields, completions::decoded, failure::Failure, messages, tools::Tools, unsupported};
use crate::{error::Error, request::Frame, service::Shared};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokenize {
    model: Option<String>,
    prompt: Option<String>,
    add_special_tokens: Option<bool>,
    add_generation_prompt: Option<bool>,
    return_token_strs: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Tokenized {
    count: usize,
    max_model_len: u32,
    tokens: Vec<TokenId>,
    token_strs: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Detokenize {
    model: Option<String>,
    tokens: Vec<TokenId>,
}

#[derive(Debug, Serialize)]
struct Detokenized {
    prompt: String,
}

/// An answer as it is written.
type Written = ([(HeaderName, &'static str); 1], String);

/// A `prompt`, or the `messages` of a chat, to ids.
pub(super) async fn tokenize(State(http): State<Http>, fields: Fields) -> Result<Written, Failure> {
    fields.make_apart(http.shared()?, |shared, fields| written(&ids_of(shared, &fields)?)).await
}

/// Ids to text.
pub(super) async fn detokenize(State(http): State<Http>, fields: Fields) -> Result<Written, Failure> {
    fields.make_apart(http.shared()?, |shared, fields| written(&text_of(shared, &fields)?)).await
}

fn ids_of(shared: &Shared, fields: &Fields) -> Result<Tokenized, Failure> {
    let asked: Tokenize = fields.read()?;
    shared.check_model(asked.model.as_deref())?;
    let prompt = match (asked.prompt, fields.get("messages")) {
        (Some(text), None) => Prompt::Text(text),
        (None, Some(_)) => {
            unsupported::refuse_in_conversation(fields)?;
            Prompt::Chat(messages::prompt(fields, Tools::read(fields)?.as_ref())?)
        }
        _ => return Err(Failure::invalid("prompt", "give either prompt, a string, or messages")),
    };
    let frame = Frame {
        special_tokens: asked.add_special_tokens.unwrap_or(true),
        generation_prompt: asked.add_generation_prompt.unwrap_or(true),
        whole: true,
    };
    let tokens = shared.rules.tokens(Some(prompt), frame)?;
    Ok(Tokenized {
        count: tokens.len(),
        max_model_len: shared.identity.context_length,
        token_strs: asked.return_token_strs.unwrap_or(false).then(|| spellings(shared, &tokens)),
        tokens,
    })
}

fn spellings(shared: &Shared, tokens: &[TokenId]) -> Vec<String> {
    let spelling = |&token: &TokenId| shared.rules.tokenizer.spelling(token).unwrap_or_default();
    tokens.iter().map(|token| String::from_utf8_lossy(spelling(token)).into_owned()).collect()
}

fn text_of(shared: &Shared, fields: &Fields) -> Result<Detokenized, Failure> {
    let Detokenize { model, tokens } = fields.read()?;
    shared.check_model(model.as_deref())?;
    shared.rules.check_tokens("tokens", &tokens)?;
    Ok(Detokenized { prompt: decoded(&shared.rules.tokenizer, &tokens) })
}

/// Here and not on the way out, since it may be long.
fn written(answer: &impl Serialize) -> Result<Written, Failure> {
    let json = serde_json::to_string(answer).map_err(|error| Error::ModelFailed(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json")], json))
}

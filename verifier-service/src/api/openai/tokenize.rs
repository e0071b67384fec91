//! `POST /tokenize` and `POST /detokenize`: what the model sees of a text, and back.

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};
use specfleet_protocol::v1::{self, generate_request::Prompt};
use specfleet_speculation::TokenId;

use super::{Http, body::Fields, chat, completions::decoded, failure::Failure};
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

#[derive(Debug, Deserialize)]
struct Detokenize {
    model: Option<String>,
    tokens: Vec<TokenId>,
}

/// A `prompt`, or the `messages` of a chat, to ids.
pub(super) async fn tokenize(State(http): State<Http>, fields: Fields) -> Result<Json<Value>, Failure> {
    let shared = http.shared()?.clone();
    let asked: Tokenize = fields.read()?;
    shared.check_model(asked.model.as_deref())?;
    let prompt = match (asked.prompt, fields.get("messages")) {
        (Some(text), None) => Prompt::Text(text),
        (None, Some(_)) => Prompt::Chat(v1::ChatPrompt { messages: chat::messages(&fields)? }),
        _ => return Err(Failure::invalid("prompt", "give either prompt, a string, or messages")),
    };
    // A long text takes milliseconds, in which other streams would wait.
    let frame = Frame {
        special_tokens: asked.add_special_tokens.unwrap_or(true),
        generation_prompt: asked.add_generation_prompt.unwrap_or(true),
    };
    let for_text = shared.clone();
    let encoded = tokio::task::spawn_blocking(move || for_text.rules.tokens(Some(prompt), frame)).await;
    let tokens = encoded.unwrap_or_else(|panic| Err(Error::ModelFailed(panic.to_string())))?;
    let spelled = asked.return_token_strs.unwrap_or(false).then(|| spellings(&shared, &tokens));
    Ok(Json(json!({
        "count": tokens.len(),
        "max_model_len": shared.identity.context_length,
        "tokens": tokens,
        "token_strs": spelled,
    })))
}

/// Ids to text.
pub(super) async fn detokenize(State(http): State<Http>, fields: Fields) -> Result<Json<Value>, Failure> {
    let shared = http.shared()?;
    let Detokenize { model, tokens } = fields.read()?;
    shared.check_model(model.as_deref())?;
    shared.rules.check_tokens("tokens", &tokens)?;
    Ok(Json(json!({"prompt": decoded(&shared.rules.tokenizer, &tokens)})))
}

fn spellings(shared: &Shared, tokens: &[TokenId]) -> Vec<String> {
    let spelling = |&token: &TokenId| shared.rules.tokenizer.spelling(token).unwrap_or_default();
    tokens.iter().map(|token| String::from_utf8_lossy(spelling(token)).into_owned()).collect()
}

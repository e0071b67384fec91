//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use specfleet_protocol::v1::{self, generate_request::Prompt};

use super::{
    Entered,
    blame::Blame,
    body::Fields,
    call::{Call, Wishes},
    failure::Failure,
    messages,
    sampling::Settings,
    structure::Structure,
    unsupported,
};
use crate::service::Shared;

mod spelling;

use spelling::Chat;

#[derive(Debug, Deserialize)]
struct Scores {
    logprobs: Option<bool>,
    top_logprobs: Option<u32>,
}

/// What is left of a body when it is read.
struct Asked {
    settings: Settings,
    request: v1::GenerateRequest,
    chat: Chat,
}

/// Answers a chat request.
pub(super) async fn answer(entered: Entered, wishes: Wishes, fields: Fields) -> Result<Response, Failure> {
    let id = wishes.request_id.clone();
    let Asked { settings, request, chat } =
        fields.make(&entered.shared, move |shared, fields| Asked::new(shared, &id, &fields)).await?;
    Call { entered, wishes, settings, requests: vec![request] }.answer(chat).await
}

impl Asked {
    fn new(shared: &Shared, id: &str, fields: &Fields) -> Result<Self, Failure> {
        let settings: Settings = fields.read()?;
        shared.check_model(settings.model.as_deref())?;
        unsupported::refuse_in_chat(fields)?;
        let structure = Structure::read(fields, &shared.dialect)?;
        let prompt = Prompt::Chat(messages::prompt(fields, structure.tools.as_ref())?);
        let top_logprobs = fields.read::<Scores>()?.n_top()?;
        let (grammar, sought) = (structure.grammar(&shared.dialect), structure.sought(&shared.dialect));
        let blame = grammar.as_ref().map(|grammar| Blame::new(grammar, structure.tools.as_ref()));
        let request = v1::GenerateRequest {
            prompt: Some(prompt),
            top_logprobs,
            grammar,
            spelled_token_ids: sought.as_ref().map_or_else(Vec::new, |_| shared.dialect.special_tokens()),
            ..settings.to_wire(id, None)?
        };
        Ok(Self { settings, request, chat: Chat { sought: sought.map(Arc::new), blame } })
    }
}

impl Scores {
    fn n_top(&self) -> Result<Option<u32>, Failure> {
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (false, Some(1..)) => {
                Err(Failure::invalid("top_logprobs", "top_logprobs is set, but logprobs is not: set it to true"))
            }
            (false, _) => Ok(None),
            (true, n_top) => Ok(Some(n_top.unwrap_or(0))),
        }
    }
}

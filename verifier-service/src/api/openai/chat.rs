//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use specfleet_protocol::v1::{self, generate_request::Prompt};

use super::{
    Entered,
    body::Fields,
    call::{Call, Wishes},
    failure::Failure,
    messages,
    sampling::Settings,
    structure::Structure,
    unsupported,
};

mod spelling;

use spelling::Chat;

#[derive(Debug, Deserialize)]
struct Scores {
    logprobs: Option<bool>,
    top_logprobs: Option<u32>,
}

/// Answers a chat request.
pub(super) async fn answer(entered: Entered, wishes: Wishes, fields: Fields) -> Result<Response, Failure> {
    let settings: Settings = fields.read()?;
    entered.check_model(settings.model.as_deref())?;
    unsupported::refuse_in_chat(&fields)?;
    let shared = entered.shared.clone();
    let structure = Structure::read(&fields, &shared.dialect)?;
    let prompt = Prompt::Chat(messages::prompt(&fields, structure.tools.as_ref())?);
    let top_logprobs = fields.read::<Scores>()?.n_top()?;
    let request = settings.to_wire(&wishes.request_id, None)?;
    let sought = structure.sought(&shared.dialect);
    let request = v1::GenerateRequest {
        prompt: Some(prompt),
        top_logprobs,
        grammar: structure.grammar(&shared.dialect),
        spelled_token_ids: sought.as_ref().map_or_else(Vec::new, |_| shared.dialect.special_tokens()),
        ..request
    };
    // They may be large, and the answer takes long.
    drop(fields);
    let call = Call { entered, wishes, settings, requests: vec![request] };
    match call.answer(Chat { sought: sought.map(Arc::new) }).await {
        Err(failure) => Err(structure.blamed(failure, &shared).await),
        answer => answer,
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

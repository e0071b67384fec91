//! What is served: `GET /v1/models`, `GET /version`, and the fingerprint of answers.

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::{Value, json};
use specfleet_protocol::v1::DraftState;

use super::{Http, failure::Failure, speculation::Speculation};
use crate::service::Shared;

/// Digits of a version id in a fingerprint. Enough to tell versions apart; the whole ids are in `/v1/models`.
const FINGERPRINT_DIGITS: usize = 12;

/// `GET /v1/models`.
pub(super) async fn list(State(http): State<Http>) -> Result<Json<Value>, Failure> {
    let shared = http.shared()?;
    Ok(Json(json!({"object": "list", "data": [describe(shared, http.opened_at())]})))
}

/// `GET /v1/models/{id}`.
pub(super) async fn show(State(http): State<Http>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let shared = http.shared()?;
    shared.check_model(Some(&id))?;
    Ok(Json(describe(shared, http.opened_at())))
}

fn describe(shared: &Shared, created: u64) -> Value {
    let identity = &shared.identity;
    let drafts = shared.pool.statuses().into_iter().map(|draft| {
        let version = draft.identity.as_ref().map(|identity| &identity.version_id);
        json!({"endpoint": draft.endpoint, "state": state(draft.state()), "version_id": version})
    });
    json!({
        "id": identity.label,
        "object": "model",
        "created": created,
        "owned_by": "specfleet",
        "max_model_len": identity.context_length,
        "version_id": identity.version_id,
        "drafts": drafts.collect::<Vec<_>>(),
    })
}

fn state(state: DraftState) -> &'static str {
    match state {
        DraftState::Unspecified => "unknown",
        DraftState::Ready => "ready",
        DraftState::Unreachable => "unreachable",
        DraftState::Incompatible => "incompatible",
    }
}

/// `GET /version`.
pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

impl Shared {
    /// A model can be asked for by its label or by its version id; a client that names none takes what there is.
    pub(super) fn check_model(&self, asked: Option<&str>) -> Result<(), Failure> {
        let identity = &self.identity;
        match asked {
            Some(asked) if !asked.is_empty() && asked != identity.label && asked != identity.version_id => {
                Err(Failure::unknown_model(asked, &identity.label))
            }
            _ => Ok(()),
        }
    }

    /// Names the target and the draft that a request is likely to have; `usage` names those that it had.
    pub(super) fn fingerprint(&self, speculation: Option<&Speculation>) -> String {
        let target = shortened(&self.identity.version_id);
        let draft = match speculation {
            Some(speculation) if speculation.is_off() => None,
            Some(speculation) if speculation.pin().is_some() => {
                speculation.pin().filter(|pin| self.pool.has_ready(pin)).map(shortened)
            }
            _ => self.pool.first_ready().map(|version| shortened(&version)),
        };
        format!("fp_{target}_{}", draft.as_deref().unwrap_or("plain"))
    }
}

fn shortened(version_id: &str) -> String {
    version_id.chars().take(FINGERPRINT_DIGITS).collect()
}

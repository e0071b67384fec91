//! What a report is about: the fields that all of them begin with.

use serde::Serialize;
use serde_json::Value;
use specfleet_client::v1::{DraftState, VerifierServiceGetIdentityResponse};

use crate::json;

/// A verifier and what is behind it.
#[derive(Debug, Serialize)]
pub(crate) struct Fleet {
    pub(crate) specctl: &'static str,
    pub(crate) endpoint: String,
    pub(crate) target: Value,
    /// Those that are ready.
    pub(crate) drafts: Vec<Value>,
}

impl Fleet {
    pub(crate) fn new(endpoint: &str, identity: &VerifierServiceGetIdentityResponse) -> Self {
        let ready = identity.drafts.iter().filter(|draft| draft.state() == DraftState::Ready);
        Self {
            specctl: env!("CARGO_PKG_VERSION"),
            endpoint: endpoint.to_owned(),
            target: json::identity(&identity.identity.clone().unwrap_or_default()),
            drafts: ready.filter_map(|draft| draft.identity.as_ref()).map(json::identity).collect(),
        }
    }
}

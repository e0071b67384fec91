//! All that a benchmark found, with what one needs to repeat it.

use serde::Serialize;
use serde_json::Value;
use specfleet_client::v1::VerifierServiceGetIdentityResponse;

use crate::bench::BenchArgs;
use crate::bench::bandwidth::Weights;
use crate::bench::cell::Cell;
use crate::json;

/// The JSON of `specctl bench`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) specctl: &'static str,
    pub(super) endpoint: String,
    pub(super) target: Value,
    pub(super) drafts: Vec<Value>,
    pub(super) settings: Settings,
    pub(super) cells: Vec<Cell>,
    /// Absent unless one stream was measured.
    pub(super) weights: Option<Weights>,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub(super) struct Settings {
    pub(super) prompts: usize,
    pub(super) passes: u32,
    pub(super) max_tokens: u32,
    pub(super) streams: Vec<u32>,
    pub(super) temperatures: Vec<f32>,
    /// Absent: the verifier's setting.
    pub(super) draft_length: Option<u32>,
    pub(super) rule: &'static str,
}

impl Report {
    pub(super) fn new(
        args: &BenchArgs,
        streams: &[u32],
        n_prompts: usize,
        endpoint: &str,
        identity: &VerifierServiceGetIdentityResponse,
    ) -> Self {
        let drafts = identity.drafts.iter().filter_map(|draft| draft.identity.as_ref()).map(json::identity).collect();
        Self {
            specctl: env!("CARGO_PKG_VERSION"),
            endpoint: endpoint.to_owned(),
            target: json::identity(&identity.identity.clone().unwrap_or_default()),
            drafts,
            settings: Settings {
                prompts: n_prompts,
                passes: args.passes,
                max_tokens: args.max_tokens,
                streams: streams.to_vec(),
                temperatures: args.temperatures.clone(),
                draft_length: args.draft_length,
                rule: "standard",
            },
            cells: Vec::new(),
            weights: None,
        }
    }
}

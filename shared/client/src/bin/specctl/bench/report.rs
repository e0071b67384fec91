//! All that a benchmark found, with what one needs to repeat it.

use serde::Serialize;
use specfleet_client::v1::VerifierServiceGetIdentityResponse;

use crate::bench::BenchArgs;
use crate::bench::bandwidth::Weights;
use crate::bench::cell::Cell;
use crate::fleet::Fleet;

/// The JSON of `specctl bench`.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) fleet: Fleet,
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
        Self {
            fleet: Fleet::new(endpoint, identity),
            settings: Settings {
                prompts: n_prompts,
                passes: args.passes,
                max_tokens: args.max_tokens,
                streams: streams.to_vec(),
                temperatures: args.temperatures.clone(),
                draft_length: args.drafting.draft_length,
                rule: "standard",
            },
            cells: Vec::new(),
            weights: None,
        }
    }
}

//! The two sides of a comparison: one request, answered plainly and with speculation.
//!
//! In each everything is said, so that no setting of the model's own cuts into one side and not the other.

use clap::Args;
use specfleet_client::request;
use specfleet_client::v1::{GenerateRequest, SamplingParams, SpeculationOptions};

use crate::prompts::Prompt;

/// How answers come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Speculative,
}

/// What an answer is drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) temperature: f32,
    /// 0 keeps all.
    pub(crate) top_k: u32,
    pub(crate) top_p: f32,
}

impl Shape {
    /// All of what the model says, at this temperature; 0 is greedy.
    pub(crate) const fn whole(temperature: f32) -> Self {
        Self { temperature, top_k: 0, top_p: 1.0 }
    }
}

/// How the speculative side is drafted for.
#[derive(Debug, Args)]
pub(crate) struct Drafting {
    /// Use drafts of this version id only (64 digits, see `specctl identity`).
    #[arg(long, value_name = "VERSION")]
    pub(crate) pin: Option<String>,
    /// At most this many draft tokens a round; otherwise the verifier's setting.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) draft_length: Option<u32>,
}

impl Drafting {
    /// One side's request.
    pub(crate) fn request(&self, prompt: &Prompt, shape: Shape, mode: Mode, max_tokens: u32) -> GenerateRequest {
        let sampling = SamplingParams {
            temperature: Some(shape.temperature),
            top_p: Some(shape.top_p),
            top_k: Some(shape.top_k),
            min_p: Some(0.0),
            repetition_penalty: Some(1.0),
            presence_penalty: Some(0.0),
            frequency_penalty: Some(0.0),
            ..SamplingParams::default()
        };
        let speculation = match mode {
            Mode::Plain => SpeculationOptions { off: true, ..SpeculationOptions::default() },
            Mode::Speculative => SpeculationOptions {
                pin: self.pin.clone().unwrap_or_default(),
                require_pin: self.pin.is_some(),
                max_draft_length: self.draft_length,
                ..SpeculationOptions::default()
            },
        };
        GenerateRequest {
            sampling: Some(sampling),
            max_tokens: Some(max_tokens),
            speculation: Some(speculation),
            ..request::chat(prompt.prompt.as_str())
        }
    }
}

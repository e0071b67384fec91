//! Flags that become fields of a request. Ranges are the verifier's business: it knows them all and names every bad
//! value at once, so nothing is checked twice here.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SamplingParams, SpeculationOptions};

mod form;

use form::FormFlags;

/// Everything about a request but its prompt.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RequestFlags {
    #[command(flatten)]
    sampling: SamplingFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    form: FormFlags,
    #[command(flatten)]
    speculation: SpeculationFlags,
}

/// What is not given is taken from the model's own generation settings.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Sampling (what is not given is the model's own setting)")]
struct SamplingFlags {
    /// 0 takes the likeliest token; higher is more varied.
    #[arg(long, short, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Keep the likeliest tokens that make up this much probability, in (0, 1].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Keep this many of the likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Drop tokens less likely than this share of the likeliest one, in [0, 1].
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Above 1 makes tokens of the prompt and the answer less likely.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    repetition_penalty: Option<f32>,
    /// Above 0 makes tokens of the answer less likely, in [-2, 2].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Above 0 makes tokens of the answer less likely for each time they occur, in [-2, 2].
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// The same seed, prompt and settings give the same text.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Length")]
struct LimitFlags {
    /// Stop after this many tokens; otherwise at the end of the context.
    #[arg(long, short = 'n', value_name = "N")]
    max_tokens: Option<u32>,
    /// Do not end before this many tokens.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    min_tokens: u32,
    /// Stop at this token id. May be repeated, or hold several separated by commas.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    stop_token_id: Vec<u32>,
    /// Go on after the model's end tokens.
    #[arg(long)]
    ignore_eos: bool,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Speculation")]
struct SpeculationFlags {
    /// Plain decoding only.
    #[arg(long, conflicts_with_all = ["pin", "require_pin", "draft_length", "max_wait"])]
    no_speculation: bool,
    /// Use drafts of this version id only (64 digits, see `specctl identity`).
    #[arg(long, value_name = "VERSION")]
    pin: Option<String>,
    /// Fail when no draft of the pinned version is ready, instead of decoding plainly.
    #[arg(long, requires = "pin")]
    require_pin: bool,
    /// At most this many draft tokens a round; otherwise the verifier's setting.
    #[arg(long, value_name = "K")]
    draft_length: Option<u32>,
    /// At most this long a round waits for its draft, for example 20ms; otherwise the verifier's setting.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    max_wait: Option<Duration>,
    /// How draft tokens are tested; otherwise draft-invariant with a seed, else standard.
    #[arg(long, value_enum, value_name = "RULE")]
    rule: Option<Rule>,
}

/// The acceptance rules, as flag values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rule {
    /// Accept with probability min(1, p/q): the most tokens a round.
    Standard,
    /// The text depends on seed and target alone, never on the draft.
    DraftInvariant,
}

impl RequestFlags {
    /// Puts the flags into a request that has its prompt.
    pub(crate) fn apply(&self, request: GenerateRequest) -> anyhow::Result<GenerateRequest> {
        Ok(GenerateRequest {
            sampling: self.sampling(),
            max_tokens: self.limits.max_tokens,
            stop_token_ids: self.limits.stop_token_id.clone(),
            ignore_eos: self.limits.ignore_eos,
            grammar: self.form.to_wire()?,
            seed: self.sampling.seed,
            speculation: Some(self.speculation.to_wire()?),
            ..request
        })
    }

    fn sampling(&self) -> Option<SamplingParams> {
        let flags = &self.sampling;
        let params = SamplingParams {
            temperature: flags.temperature,
            top_p: flags.top_p,
            top_k: flags.top_k,
            min_p: flags.min_p,
            repetition_penalty: flags.repetition_penalty,
            presence_penalty: flags.presence_penalty,
            frequency_penalty: flags.frequency_penalty,
            min_tokens: self.limits.min_tokens,
            ..SamplingParams::default()
        };
        (params != SamplingParams::default()).then_some(params)
    }
}

impl SpeculationFlags {
    fn to_wire(&self) -> anyhow::Result<SpeculationOptions> {
        let wait = |wait: Duration| u32::try_from(wait.as_micros()).context("--max-wait is longer than an hour");
        let rule = match self.rule {
            None => AcceptanceRule::Unspecified,
            Some(Rule::Standard) => AcceptanceRule::Standard,
            Some(Rule::DraftInvariant) => AcceptanceRule::DraftInvariant,
        };
        Ok(SpeculationOptions {
            off: self.no_speculation,
            pin: self.pin.clone().unwrap_or_default(),
            require_pin: self.require_pin,
            max_draft_length: self.draft_length,
            max_wait_micros: self.max_wait.map(wait).transpose()?,
            rule: rule.into(),
        })
    }
}

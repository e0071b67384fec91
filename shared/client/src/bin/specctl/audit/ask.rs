//! The requests of an audit.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SamplingParams, SpeculationOptions};
use specfleet_client::{Answer, Client, request};

use crate::audit::AuditArgs;
use crate::prompts::Prompt;

/// How answers come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Speculative,
}

/// What an answer is drawn from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) temperature: f32,
    /// 0 keeps all.
    pub(super) top_k: u32,
    pub(super) top_p: f32,
}

/// Always the likeliest token.
pub(super) const GREEDY: Shape = Shape { temperature: 0.0, top_k: 0, top_p: 1.0 };
/// What the model says, as it is.
pub(super) const WHOLE: Shape = Shape { temperature: 1.0, top_k: 0, top_p: 1.0 };
/// Sharper, and without its tail: the draft has to do the same to its own. Few answers are possible then, so that each is
/// common, and a difference shows with fewer of them.
pub(super) const CUT: Shape = Shape { temperature: 0.8, top_k: 4, top_p: 0.95 };

/// A verifier and what is asked of it.
#[derive(Debug)]
pub(super) struct Asker<'a> {
    pub(super) client: Client,
    pub(super) args: &'a AuditArgs,
}

impl Asker<'_> {
    /// A request in which everything is said, so that no setting of the model's own gets into one side only.
    pub(super) fn request(&self, prompt: &Prompt, shape: Shape, mode: Mode, max_tokens: u32) -> GenerateRequest {
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
                pin: self.args.pin.clone().unwrap_or_default(),
                require_pin: self.args.pin.is_some(),
                max_draft_length: self.args.draft_length,
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

    /// The answers to requests of which `side_by_side` run at a time, those of each request together and in order.
    pub(super) async fn answers(
        &self,
        requests: impl IntoIterator<Item = GenerateRequest>,
        side_by_side: usize,
    ) -> anyhow::Result<Vec<Vec<Answer>>> {
        let answers = requests.into_iter().map(|request| async {
            let generation = self.client.generate(request).await?;
            generation.answers().await
        });
        stream::iter(answers).buffered(side_by_side.max(1)).try_collect().await.context("the audit was interrupted")
    }
}

/// The same with another rule than the one that follows from whether it has a seed.
pub(super) fn with_rule(request: GenerateRequest, rule: AcceptanceRule) -> GenerateRequest {
    let speculation = SpeculationOptions { rule: rule.into(), ..request.speculation.clone().unwrap_or_default() };
    GenerateRequest { speculation: Some(speculation), ..request }
}

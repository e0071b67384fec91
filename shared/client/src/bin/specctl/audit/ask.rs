//! The requests of an audit.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt, stream};
use specfleet_client::v1::{AcceptanceRule, GenerateRequest, SpeculationOptions};
use specfleet_client::{Answer, Client};

use crate::audit::AuditArgs;
use crate::prompts::Prompt;
use crate::sides::{Mode, Shape};

/// Always the likeliest token.
pub(super) const GREEDY: Shape = Shape::whole(0.0);
/// What the model says, as it is.
pub(super) const WHOLE: Shape = Shape::whole(1.0);
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
    /// A request in which everything is said.
    pub(super) fn request(&self, prompt: &Prompt, shape: Shape, mode: Mode, max_tokens: u32) -> GenerateRequest {
        self.args.drafting.request(prompt, shape, mode, max_tokens)
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

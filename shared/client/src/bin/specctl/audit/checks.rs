//! The checks, one after the other.

use std::time::Instant;

use specfleet_client::v1::GenerateRequest;

use crate::audit::ask::{Asker, GREEDY, WHOLE};
use crate::audit::check::Check;
use crate::audit::equality::Equality;
use crate::audit::honesty;
use crate::progress::Progress;
use crate::prompts::{self, Prompt};
use crate::sides::Mode;

/// Continuations of a seed.
const SEEDED_CHOICES: u32 = 2;
/// Prompts that are compared between two looks at the clock.
const CHUNK: usize = 4;

/// An audit that runs.
pub(super) struct Audit<'a> {
    pub(super) asker: Asker<'a>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) seed: u64,
    pub(super) promises_equal_bits: bool,
    pub(super) begin: Instant,
}

impl Audit<'_> {
    /// All of them.
    pub(super) async fn checks(&self) -> anyhow::Result<Vec<Check>> {
        let mut checks = vec![self.greedy().await?, self.seeded().await?];
        checks.extend(self.laws().await?);
        // At the end: by then the verifier has seen this audit's own rounds.
        let drafts = self.asker.client.identity().await?.drafts;
        let versions = self.asker.client.draft_versions().await?;
        checks.extend(honesty::checks(&versions, &drafts));
        Ok(checks)
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        self.begin.elapsed() >= self.asker.args.time_limit
    }

    async fn greedy(&self) -> anyhow::Result<Check> {
        let args = self.asker.args;
        let request = |prompt: &Prompt, mode| self.asker.request(prompt, GREEDY, mode, args.max_tokens);
        self.equality("greedy", args.streams, request).await
    }

    async fn seeded(&self) -> anyhow::Result<Check> {
        let args = self.asker.args;
        let request = |prompt: &Prompt, mode| GenerateRequest {
            n: SEEDED_CHOICES,
            seed: Some(self.seed),
            ..self.asker.request(prompt, WHOLE, mode, args.max_tokens)
        };
        self.equality("seeded", args.streams / SEEDED_CHOICES as usize, request).await
    }

    /// `side_by_side` requests with speculation at a time.
    async fn equality(
        &self,
        name: &'static str,
        side_by_side: usize,
        request: impl Fn(&Prompt, Mode) -> GenerateRequest,
    ) -> anyhow::Result<Check> {
        let prompts = prompts::spread(self.prompts.clone(), self.asker.args.compare);
        let progress = Progress::new(name.to_owned(), prompts.len(), "prompts");
        let (mut equality, mut n_done) = (Equality::default(), 0);
        for chunk in prompts.chunks(CHUNK) {
            if self.is_out_of_time() {
                break;
            }
            let requests = |mode| chunk.iter().map(|prompt| request(prompt, mode)).collect::<Vec<_>>();
            let speculative = self.asker.answers(requests(Mode::Speculative), side_by_side).await?;
            let plain = self.asker.answers(requests(Mode::Plain), CHUNK).await?;
            for ((prompt, plain), speculative) in chunk.iter().zip(&plain).zip(&speculative) {
                equality.see(&prompt.id, plain, speculative);
            }
            n_done += chunk.len();
            progress.show(n_done);
        }
        progress.end();
        Ok(equality.check(name, self.promises_equal_bits))
    }
}

//! Runs the requests of a benchmark, in the order that keeps the comparison fair.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use futures::future::try_join_all;
use specfleet_client::Client;
use specfleet_client::v1::GenerateRequest;

use crate::bench::BenchArgs;
use crate::bench::cell::Cell;
use crate::observe::Observed;
use crate::progress::Progress;
use crate::prompts::Prompt;
use crate::sides::{Mode, Shape};
use crate::text::count;

/// A verifier, prompts and settings.
pub(super) struct Bench<'a> {
    pub(super) client: Client,
    pub(super) prompts: Vec<Prompt>,
    pub(super) args: &'a BenchArgs,
}

/// Requests that ran side by side.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) requests: Vec<Observed>,
    /// From sending them to the end of the last.
    pub(super) wall: Duration,
}

/// One batch of prompts, both ways.
#[derive(Debug, Clone)]
pub(super) struct Pair {
    pub(super) plain: Batch,
    pub(super) speculative: Batch,
}

impl Bench<'_> {
    /// Lets the verifier see every prompt once: from then on its prefix is known, whoever asks first.
    pub(super) async fn warm_up_prompts(&self) -> anyhow::Result<()> {
        let progress = Progress::new("warm-up".to_owned(), self.prompts.len(), "prompts");
        for (position, prompt) in self.prompts.iter().enumerate() {
            progress.show(position + 1);
            let request = GenerateRequest { max_tokens: Some(1), ..self.request(prompt, 0.0, Mode::Plain) };
            self.run_request(request).await.with_context(|| format!("prompt {:?}", prompt.id))?;
        }
        progress.end();
        Ok(())
    }

    /// All pairs at one number of streams and one temperature.
    pub(super) async fn cell(&self, streams: u32, temperature: f32) -> anyhow::Result<Cell> {
        let batches = batches(self.prompts.len(), streams as usize);
        let passes = self.args.passes as usize;
        let progress = Progress::new(
            format!("{}, temperature {temperature}", count(streams.into(), "stream")),
            passes * batches.len(),
            "batches",
        );
        if let Some(first) = batches.first() {
            for mode in [Mode::Plain, Mode::Speculative] {
                self.run_batch(first, temperature, mode).await?;
            }
        }
        let mut pairs = Vec::with_capacity(passes * batches.len());
        for pass in 0..passes {
            for (position, batch) in batches.iter().enumerate() {
                pairs.push(self.pair(batch, temperature, (pass + position) % 2 == 0).await?);
                progress.show(pairs.len());
            }
        }
        progress.end();
        Ok(Cell::of(streams, temperature, &pairs))
    }

    async fn pair(&self, batch: &[usize], temperature: f32, plain_first: bool) -> anyhow::Result<Pair> {
        if plain_first {
            let plain = self.run_batch(batch, temperature, Mode::Plain).await?;
            let speculative = self.run_batch(batch, temperature, Mode::Speculative).await?;
            return Ok(Pair { plain, speculative });
        }
        let speculative = self.run_batch(batch, temperature, Mode::Speculative).await?;
        let plain = self.run_batch(batch, temperature, Mode::Plain).await?;
        Ok(Pair { plain, speculative })
    }

    async fn run_batch(&self, batch: &[usize], temperature: f32, mode: Mode) -> anyhow::Result<Batch> {
        let requests = batch.iter().map(|&prompt_idx| {
            let prompt = &self.prompts[prompt_idx];
            let request = self.request(prompt, temperature, mode);
            async move { self.run_request(request).await.with_context(|| format!("prompt {:?}", prompt.id)) }
        });
        let begin = Instant::now();
        let requests = try_join_all(requests).await?;
        Ok(Batch { requests, wall: begin.elapsed() })
    }

    async fn run_request(&self, request: GenerateRequest) -> anyhow::Result<Observed> {
        let mut observed = Observed::new(Instant::now());
        let mut generation = self.client.generate(request).await?;
        while let Some(event) = generation.next().await {
            observed.see(&event?, Instant::now());
        }
        Ok(observed)
    }

    fn request(&self, prompt: &Prompt, temperature: f32, mode: Mode) -> GenerateRequest {
        // Without a seed the rule is the standard one.
        self.args.drafting.request(prompt, Shape::whole(temperature), mode, self.args.max_tokens)
    }
}

/// Batches of exactly `streams` prompts that hold every prompt at least once: the last one is filled up from the front.
fn batches(n_prompts: usize, streams: usize) -> Vec<Vec<usize>> {
    (0..n_prompts)
        .step_by(streams)
        .map(|first| (first..first + streams).map(|position| position % n_prompts).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_is_full_and_every_prompt_is_in_one() {
        assert_eq!(batches(3, 1), [[0], [1], [2]]);
        assert_eq!(batches(5, 2), [[0, 1], [2, 3], [4, 0]]);
        assert_eq!(batches(2, 5), [[0, 1, 0, 1, 0]]);
    }
}

//! Requests to a pair, and what came back, counted.

use std::{collections::BTreeMap, time::Instant};

use futures::{StreamExt, stream};
use specfleet_client::{
    Client,
    v1::{AcceptanceRule, GenerateRequest, SamplingParams, SpeculationOptions},
};
use specfleet_speculation::TokenId;
use specfleet_tests::{chi_square::ChiSquare, outcome::Outcome, real_models::long_form, scripted_pair};

use super::law::{Law, Tokens};

/// What to ask for, and how.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) sampling: SamplingParams,
    pub(crate) draw: Draw,
    pub(crate) seeds: Seeds,
    pub(crate) draft_length: DraftLength,
    /// Requests at a time.
    pub(crate) concurrency: usize,
}

/// What one draw is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Draw {
    /// So many tokens in a row out of a long request, for laws that depend on the last `context` tokens alone.
    Piece { length: usize, context: usize },
    /// The first tokens of a request, for laws that depend on everything before.
    Beginning { length: usize },
}

/// Where random numbers come from, and which rule uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seeds {
    /// From nowhere that a client knows; the standard rule.
    Unknown,
    /// A seed for each request, and the standard rule by choice.
    Standard,
    /// A seed for each request, and the rule that it brings.
    DraftInvariant,
}

/// Draft tokens a round.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DraftLength {
    Fixed(u32),
    /// From 0 to 4, another in each request.
    Changing,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            sampling: SamplingParams::default(),
            draw: Draw::Piece { length: 1, context: 0 },
            seeds: Seeds::Unknown,
            draft_length: DraftLength::Fixed(3),
            concurrency: 4,
        }
    }
}

/// The prompt where draws are beginnings: with one id twice, for the penalties.
pub(crate) const PROMPT: [TokenId; 3] = [3, 7, 3];

impl Plan {
    /// Tokens of a draw.
    pub(crate) fn length(&self) -> usize {
        match self.draw {
            Draw::Piece { length, .. } | Draw::Beginning { length } => length,
        }
    }

    fn n_draws(&self) -> usize {
        match (long_form(), self.draw) {
            (true, _) => 200_000,
            (false, Draw::Piece { .. }) => 8_000,
            (false, Draw::Beginning { .. }) => 3_000,
        }
    }

    /// Draws of one request. Lengths differ, so that requests begin and end at all stages of others.
    fn draws_of(&self, index: usize) -> usize {
        match self.draw {
            Draw::Piece { length, .. } => (60 + 60 * (index % 7)) / length,
            Draw::Beginning { .. } => 1,
        }
    }

    fn request(&self, index: usize) -> GenerateRequest {
        let (prompt, n_tokens) = match self.draw {
            Draw::Piece { length, .. } => (vec![3, index as TokenId % 16], self.draws_of(index) * length),
            // Two more than are looked at, so that rounds are not cut short at the last one.
            Draw::Beginning { length } => (PROMPT.to_vec(), length + 2),
        };
        let (seed, rule) = match self.seeds {
            Seeds::Unknown => (None, AcceptanceRule::Unspecified),
            Seeds::Standard => (Some(index as u64), AcceptanceRule::Standard),
            Seeds::DraftInvariant => (Some(index as u64), AcceptanceRule::Unspecified),
        };
        let draft_length = match self.draft_length {
            DraftLength::Fixed(length) => length,
            DraftLength::Changing => index as u32 % 5,
        };
        GenerateRequest {
            sampling: Some(self.sampling.clone()),
            ignore_eos: matches!(self.draw, Draw::Piece { .. }),
            seed,
            speculation: Some(SpeculationOptions {
                max_draft_length: Some(draft_length),
                rule: rule.into(),
                ..SpeculationOptions::default()
            }),
            ..scripted_pair::request(&prompt, n_tokens as u32)
        }
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = (usize, GenerateRequest)> {
        let mut n_draws = 0;
        (0..)
            .take_while(move |index| {
                n_draws += self.draws_of(*index);
                n_draws < self.n_draws() + self.draws_of(*index)
            })
            .map(|index| (index, self.request(index)))
    }

    fn rule(&self) -> AcceptanceRule {
        match self.seeds {
            Seeds::Unknown | Seeds::Standard => AcceptanceRule::Standard,
            Seeds::DraftInvariant => AcceptanceRule::DraftInvariant,
        }
    }
}

/// How often each draw occurred after each context.
#[derive(Default)]
pub(crate) struct Sample {
    counts: BTreeMap<Tokens, BTreeMap<Tokens, u64>>,
    may_end: bool,
    n_tested: u64,
    n_accepted: u64,
    seconds: f64,
}

impl Sample {
    /// Runs the requests of a plan.
    pub(crate) async fn draw(client: &Client, plan: &Plan) -> Self {
        let mut sample = Self { may_end: matches!(plan.draw, Draw::Beginning { .. }), ..Self::default() };
        let started = Instant::now();
        let mut outcomes = stream::iter(plan.requests())
            .map(|(index, request)| async move { (index, Outcome::of(client, request).await.unwrap()) })
            .buffer_unordered(plan.concurrency);
        while let Some((index, outcome)) = outcomes.next().await {
            assert_eq!(outcome.speculation().rule(), plan.rule());
            sample.count(plan, index, &outcome);
        }
        sample.seconds = started.elapsed().as_secs_f64();
        let drafts_rest = matches!(plan.draft_length, DraftLength::Fixed(0));
        assert!(drafts_rest || sample.n_tested > sample.n_draws() / 4, "the drafts took part");
        sample
    }

    fn count(&mut self, plan: &Plan, index: usize, outcome: &Outcome) {
        let tokens = outcome.token_ids();
        match plan.draw {
            Draw::Piece { length, context } => {
                assert_eq!(tokens.len(), plan.draws_of(index) * length, "nothing but max_tokens ends a request");
                let mut last = vec![index as TokenId % 16];
                for piece in tokens.chunks(length) {
                    self.count_one(last.split_off(last.len() - context), piece.to_vec());
                    last = piece.to_vec();
                }
            }
            Draw::Beginning { length } => {
                self.count_one(PROMPT.to_vec(), tokens.into_iter().take(length).collect());
            }
        }
        self.n_tested += u64::from(outcome.n_tested());
        self.n_accepted += u64::from(outcome.speculation().accepted);
    }

    fn count_one(&mut self, context: Tokens, draw: Tokens) {
        *self.counts.entry(context).or_default().entry(draw).or_default() += 1;
    }

    /// Judges the first `length` tokens of each draw: within each context, then over all.
    pub(crate) fn judge(&self, law: &Law, length: usize) -> ChiSquare {
        let mut sum = ChiSquare { statistic: 0.0, degrees: 0 };
        for (context, draws) in &self.counts {
            let law = law.continuations(context, length, self.may_end);
            let mut counts: BTreeMap<&[TokenId], u64> = law.keys().map(|tokens| (&tokens[..], 0)).collect();
            for (draw, count) in draws {
                let beginning = &draw[..length.min(draw.len())];
                *counts.get_mut(beginning).unwrap_or_else(|| panic!("{draw:?} ends where nothing ends")) += count;
            }
            let counts: Vec<u64> = counts.into_values().collect();
            let test = ChiSquare::of(&counts, &law.into_values().collect::<Vec<_>>());
            sum.statistic += test.statistic;
            sum.degrees += test.degrees;
        }
        sum
    }

    pub(crate) fn n_draws(&self) -> u64 {
        self.counts.values().flat_map(BTreeMap::values).sum()
    }

    /// Of the draft tokens that were put to the test; `None` if none was.
    pub(crate) fn share_accepted(&self) -> Option<f64> {
        (self.n_tested > 0).then(|| self.n_accepted as f64 / self.n_tested as f64)
    }

    pub(crate) fn draws_per_second(&self) -> f64 {
        self.n_draws() as f64 / self.seconds
    }
}

//! A target and a draft made of scripted rows, run through the production path: shape, draw, check, decide, commit.

use specfleet_speculation::TokenId;
use specfleet_speculation::distribution::Proposal;
use specfleet_speculation::propose::{self, Rule, Support};
use specfleet_speculation::random::{DraftRandomness, RequestSeed, VerifyRandomness};
use specfleet_speculation::round::{self, RoundInput, RoundOutcome};
use specfleet_speculation::transform::{SamplingParams, TokenCounts, Transforms, Vocabulary};

/// A row of logits after a sequence (prompt included).
pub(crate) type Script = fn(&[TokenId]) -> Vec<f32>;

#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) target: Script,
    pub(crate) draft: Script,
    pub(crate) params: SamplingParams,
    /// What the draft does where it does not do the same.
    pub(crate) draft_params: Option<SamplingParams>,
    pub(crate) support: Support,
    pub(crate) rule: Rule,
    pub(crate) draft_length: usize,
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) n_tokens: usize,
    pub(crate) end: Option<TokenId>,
}

/// What one request produced.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    /// Generated tokens.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) rounds: Vec<RoundOutcome>,
}

impl Pair {
    pub(crate) fn new(target: Script, draft: Script) -> Self {
        Self {
            target,
            draft,
            params: SamplingParams::default(),
            draft_params: None,
            support: Support::default(),
            rule: Rule::Standard,
            draft_length: 1,
            prompt: vec![0],
            n_tokens: 1,
            end: None,
        }
    }

    pub(crate) fn greedy(target: Script, draft: Script) -> Self {
        let params = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
        Self { params, ..Self::new(target, draft) }
    }

    pub(crate) fn generate(&self, seed: u64) -> Generation {
        let seed = RequestSeed::from_u64(seed);
        let verify = VerifyRandomness::new(&seed);
        let draft = DraftRandomness::new(&seed.draft_seed());
        let transforms = Transforms::new(self.params.clone(), self.n_vocab()).unwrap();

        let mut sequence = self.prompt.clone();
        let mut committed = TokenCounts::new(&self.prompt);
        let mut generation = Generation::default();
        let is_end = |token| self.end == Some(token);
        while generation.tokens.len() < self.n_tokens && !generation.tokens.last().is_some_and(|last| is_end(*last)) {
            let proposal = self.propose(&sequence, &committed, &draft);
            let input = RoundInput {
                proposal: Some(&proposal),
                base_length: sequence.len() as u64,
                rule: self.rule,
                randomness: &verify,
                is_end: &is_end,
                budget: self.n_tokens - generation.tokens.len(),
            };
            let outcome = round::decide(input, |_, before| {
                let mut row = (self.target)(&[&sequence, before].concat());
                transforms.shape(&mut row, Vocabulary::Full, &committed, before, None)
            });
            let outcome = outcome.unwrap();
            for token in outcome.committed.iter().map(|committed| committed.token) {
                sequence.push(token);
                committed.push_generated(token);
                generation.tokens.push(token);
            }
            generation.rounds.push(outcome);
        }
        generation
    }

    fn propose(&self, sequence: &[TokenId], committed: &TokenCounts, randomness: &DraftRandomness) -> Proposal {
        let params = self.draft_params.clone().unwrap_or(self.params.clone());
        let transforms = Transforms::new(params, self.n_vocab()).unwrap();
        let (mut tokens, mut distributions) = (vec![], vec![]);
        while tokens.len() < self.draft_length {
            let mut row = (self.draft)(&[sequence, &tokens].concat());
            let shaped = transforms.shape(&mut row, Vocabulary::Full, committed, &tokens, None).unwrap();
            let position = (sequence.len() + tokens.len()) as u64;
            let drafted = propose::draft_token(&shaped, self.support, self.rule, randomness, position);
            tokens.push(drafted.token);
            distributions.push(drafted.distribution);
        }
        Proposal::new(tokens, distributions, self.n_vocab()).unwrap()
    }

    fn n_vocab(&self) -> usize {
        (self.target)(&self.prompt).len()
    }
}

/// Logits whose softmax is these probabilities.
pub(crate) fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|probability| probability.ln() as f32).collect()
}

/// A row with one clear winner.
pub(crate) fn one_hot(winner: usize, n_vocab: usize) -> Vec<f32> {
    (0..n_vocab).map(|id| if id == winner { 10.0 } else { 0.0 }).collect()
}

/// p = [.1, .2, .3, .4] at every position.
pub(crate) fn rising(_: &[TokenId]) -> Vec<f32> {
    logits(&[0.1, 0.2, 0.3, 0.4])
}

/// q = [.4, .3, .2, .1] at every position.
pub(crate) fn falling(_: &[TokenId]) -> Vec<f32> {
    logits(&[0.4, 0.3, 0.2, 0.1])
}

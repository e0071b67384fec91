//! The law that the output must have: transform spec 1 written down a second time.
//!
//! The services shape both distributions with one function, so a mistake in it would be on both sides, and the output
//! would follow the wrong law exactly. These are the definitions of `proto/specfleet/v1/sampling.proto` in the plainest
//! form, in f64, and they share no code with it.

use std::collections::BTreeMap;

use specfleet_client::v1::SamplingParams;
use specfleet_model::scripted::table::Table;
use specfleet_speculation::TokenId;
use specfleet_tests::scripted_pair::{END, N_VOCAB};

/// Token ids in order: a prompt, a context, a continuation.
pub(crate) type Tokens = Vec<TokenId>;

/// What a scripted target writes under some sampling parameters.
pub(crate) struct Law {
    table: Table,
    sampling: SamplingParams,
}

impl Law {
    pub(crate) fn new(table: &str, sampling: &SamplingParams) -> Self {
        Self { table: Table::parse(table, N_VOCAB).unwrap(), sampling: sampling.clone() }
    }

    /// The probability of each id after a prompt and what was generated since.
    pub(crate) fn next(&self, prompt: &[TokenId], generated: &[TokenId]) -> Vec<f64> {
        let mut logits = self.logits(prompt, generated);
        let temperature = number(self.sampling.temperature, 1.0);
        logits.iter_mut().for_each(|logit| *logit /= temperature);
        let mut probabilities = softmax(&logits);
        self.truncate(&mut probabilities);
        normalised(probabilities)
    }

    /// Each continuation of `length` tokens, and each that [`END`] ends before if `may_end`, with its probability.
    pub(crate) fn continuations(&self, prompt: &[TokenId], length: usize, may_end: bool) -> BTreeMap<Tokens, f64> {
        let mut finished = BTreeMap::new();
        let mut open = vec![(Tokens::new(), 1.0)];
        while let Some((generated, probability)) = open.pop() {
            if generated.len() == length || (may_end && generated.last() == Some(&END)) {
                finished.insert(generated, probability);
                continue;
            }
            for (id, share) in (0..).zip(self.next(prompt, &generated)) {
                open.push(([&generated[..], &[id]].concat(), probability * share));
            }
        }
        finished
    }

    /// Logits after bias, bans and penalties.
    fn logits(&self, prompt: &[TokenId], generated: &[TokenId]) -> Vec<f64> {
        let prefix = [prompt, generated].concat();
        let mut logits: Vec<f64> = self.table.logits(&prefix).into_iter().map(f64::from).collect();

        for bias in &self.sampling.logit_bias {
            logits[bias.token_id as usize] += f64::from(bias.bias);
        }
        if generated.len() < self.sampling.min_tokens as usize {
            logits[END as usize] = f64::NEG_INFINITY;
        }
        let repetition = number(self.sampling.repetition_penalty, 1.0);
        let presence = number(self.sampling.presence_penalty, 0.0);
        let frequency = number(self.sampling.frequency_penalty, 0.0);
        for (id, logit) in (0..).zip(&mut logits) {
            let n_generated = generated.iter().filter(|token| **token == id).count();
            if prefix.contains(&id) {
                *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
            }
            if n_generated > 0 {
                *logit -= presence;
            }
            *logit -= frequency * n_generated as f64;
        }
        logits
    }

    /// Sets removed ids to 0.
    fn truncate(&self, probabilities: &mut [f64]) {
        let greatest = probabilities.iter().copied().fold(0.0, f64::max);
        let least_kept = number(self.sampling.min_p, 0.0) * greatest;
        probabilities.iter_mut().filter(|probability| **probability < least_kept).for_each(|removed| *removed = 0.0);

        let mut order: Vec<usize> = (0..N_VOCAB).collect();
        order.sort_by(|left, right| probabilities[*right].total_cmp(&probabilities[*left]));
        let top_k = self.sampling.top_k.unwrap_or(0) as usize;
        if top_k > 0 {
            order.iter().skip(top_k).for_each(|removed| probabilities[*removed] = 0.0);
        }

        let goal = number(self.sampling.top_p, 1.0) * probabilities.iter().sum::<f64>();
        let mut likelier = 0.0;
        for id in order {
            let probability = probabilities[id];
            if likelier >= goal {
                probabilities[id] = 0.0;
            }
            likelier += probability;
        }
    }
}

fn number(field: Option<f32>, neutral: f64) -> f64 {
    field.map_or(neutral, f64::from)
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let greatest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    normalised(logits.iter().map(|logit| (logit - greatest).exp()).collect())
}

fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
    weights
}

#[test]
fn the_enumerated_law_is_a_law() {
    let sampling = SamplingParams {
        temperature: Some(0.7),
        top_k: Some(9),
        frequency_penalty: Some(1.0),
        min_tokens: 2,
        ..SamplingParams::default()
    };
    let law = Law::new(include_str!("tables/chain.txt"), &sampling).continuations(&[3], 3, true);
    assert!((law.values().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(
        law.iter().all(|(tokens, probability)| tokens.len() == 3 || *probability == 0.0),
        "no end before the third"
    );
    assert!(law.iter().any(|(tokens, probability)| tokens.ends_with(&[END]) && *probability > 0.0));
}

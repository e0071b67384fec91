//! Transforms against the processors of the Hugging Face library; `tests/golden/transforms.py` makes the file.

use serde::Deserialize;
use specfleet_speculation::TokenId;
use specfleet_speculation::transform::{SamplingParams, TokenCounts, Transforms, Vocabulary};

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<TokenId>,
    generated: Vec<TokenId>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    params: Params,
    logits: Vec<f32>,
    probabilities: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
    logit_bias: Option<Vec<(TokenId, f32)>>,
    min_tokens: Option<u32>,
    end_tokens: Option<Vec<TokenId>>,
}

impl Params {
    fn sampling(&self) -> SamplingParams {
        let default = SamplingParams::default();
        SamplingParams {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            top_k: self.top_k.unwrap_or(default.top_k),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(default.repetition_penalty),
            logit_bias: self.logit_bias.clone().unwrap_or_default(),
            min_tokens: self.min_tokens.unwrap_or_default(),
            end_tokens: self.end_tokens.clone().unwrap_or_default(),
            ..default
        }
    }
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/transforms.json")).unwrap()
}

/// The generated tokens count the same whether they are committed or still drafts.
#[test]
fn transforms_agree_with_hugging_face() {
    let golden = golden();
    for case in &golden.cases {
        let transforms = Transforms::new(case.params.sampling(), case.logits.len()).unwrap();
        for n_committed in 0..=golden.generated.len() {
            let (generated, pending) = golden.generated.split_at(n_committed);
            let mut committed = TokenCounts::new(&golden.prompt);
            generated.iter().for_each(|token| committed.push_generated(*token));
            let shaped =
                transforms.shape(&mut case.logits.clone(), Vocabulary::Full, &committed, pending, None).unwrap();

            let ids = case.probabilities.iter().enumerate();
            let (n_kept, greatest_error) = ids.fold((0, 0.0_f64), |(n_kept, error), (id, expected)| {
                let found = shaped.probability(id as TokenId);
                assert_eq!(found > 0.0, *expected > 0.0, "token {id}: {found} against {expected}, {:?}", case.params);
                let relative = if *expected > 0.0 { (found / expected - 1.0).abs() } else { 0.0 };
                (n_kept + usize::from(found > 0.0), error.max(relative))
            });
            assert!(greatest_error < 2e-6, "{greatest_error} with {:?}", case.params);
            if n_committed == 0 {
                println!("kept {n_kept:>2}, greatest relative error {greatest_error:.1e}: {:?}", case.params);
            }
        }
    }
}

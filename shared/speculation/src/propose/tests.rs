#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::law::Law;
use crate::random::RequestSeed;
use crate::transform::{SamplingParams, TokenCounts, Transforms, Vocabulary};

fn shaped(row: &[f32], params: SamplingParams) -> Shaped {
    let transforms = Transforms::new(params, row.len()).unwrap();
    transforms.shape(&mut row.to_vec(), Vocabulary::Full, &TokenCounts::default(), &[], None).unwrap()
}

fn sampled(row: &[f32]) -> Shaped {
    shaped(row, SamplingParams::default())
}

fn randomness(seed: u64) -> DraftRandomness {
    DraftRandomness::new(&RequestSeed::from_u64(seed).draft_seed())
}

fn top(size: u32) -> Support {
    Support::Top(NonZeroU32::new(size).unwrap())
}

fn draw(shaped: &Shaped, support: Support) -> Drafted {
    draft_token(shaped, support, Rule::Standard, &randomness(1), 5)
}

#[test]
fn a_greedy_draft_reports_a_point() {
    let greedy = shaped(&[0.0, 2.0, 1.0], SamplingParams { temperature: 0.0, ..SamplingParams::default() });
    for support in [Support::default(), Support::Full] {
        assert_eq!(draw(&greedy, support), point(1));
    }
}

#[test]
fn the_draft_invariant_rule_reports_a_point() {
    let drafted = draft_token(&sampled(&[0.0; 8]), Support::Full, Rule::DraftInvariant, &randomness(1), 5);
    assert_eq!(drafted.distribution, DraftDistribution::Point(drafted.token));
}

#[test]
fn the_support_is_the_likeliest_ids_with_ties_to_the_lowest() {
    let DraftDistribution::Sparse(sparse) = draw(&sampled(&[0.0, 1.0, 1.0, 3.0, 1.0]), top(3)).distribution else {
        panic!("a sampled draft of bounded support is sparse");
    };
    assert_eq!(sparse.ids(), [1, 2, 3]);
}

/// What was cut before the draw is not in q.
#[test]
fn tokens_that_transforms_removed_are_not_reported() {
    let row: Vec<f32> = [0.3_f32, 0.4, 0.2, 0.1].iter().map(|probability| probability.ln()).collect();
    let shaped = shaped(&row, SamplingParams { top_k: 2, ..SamplingParams::default() });
    for support in [Support::default(), Support::Full] {
        let q = draw(&shaped, support).distribution;
        for (token, expected) in [3.0 / 7.0, 4.0 / 7.0, 0.0, 0.0].iter().enumerate() {
            assert!((q.probability(token as TokenId) - expected).abs() < 1e-6, "{q:?}");
        }
    }
}

/// Draws follow the reported numbers even where a coarse dtype would merge them.
#[test]
fn draws_follow_the_reported_distribution() {
    let shaped = shaped(&[10.0, 10.03], SamplingParams { temperature: 0.1, ..SamplingParams::default() });
    for support in [Support::default(), Support::Full] {
        let n_draws = 50_000;
        let mut n_first = 0;
        let mut q_first = 0.0;
        for seed in 0..n_draws {
            let drafted = draft_token(&shaped, support, Rule::Standard, &randomness(seed), 0);
            n_first += u64::from(drafted.token == 0);
            q_first = drafted.distribution.probability(0);
        }
        assert!((q_first - 0.4256).abs() < 1e-4, "{q_first}");
        let standard_error = (q_first * (1.0 - q_first) / n_draws as f64).sqrt();
        let z = (n_first as f64 / n_draws as f64 - q_first) / standard_error;
        println!("{support:?}: {n_first} of {n_draws} draws, q = {q_first:.4}, z = {z:.2}");
        assert!(z.abs() < 5.0);
    }
}

#[test]
fn a_reduced_draft_reports_ids_of_the_target() {
    let ids = [4, 100, 2000];
    let transforms = Transforms::new(SamplingParams::default(), 3000).unwrap();
    let committed = TokenCounts::default();
    let shaped = transforms.shape(&mut [0.0; 3], Vocabulary::Reduced(&ids), &committed, &[], None).unwrap();
    for support in [Support::default(), Support::Full] {
        for rule in [Rule::Standard, Rule::DraftInvariant] {
            let drafted = draft_token(&shaped, support, rule, &randomness(2), 9);
            assert!(ids.contains(&drafted.token));
            assert!(drafted.distribution.probability(drafted.token) > 0.3);
        }
    }
}

proptest! {
    #[test]
    fn quantising_keeps_order_support_and_total(
        row in prop::collection::vec(-40.0..10.0_f32, 1..400),
        size in 1_u32..100,
        seed: u64,
    ) {
        let shaped = sampled(&row);
        let drafted = draft_token(&shaped, top(size), Rule::Standard, &randomness(seed), 0);
        let DraftDistribution::Sparse(sparse) = drafted.distribution else {
            panic!("a sampled draft of bounded support is sparse");
        };
        let n_kept = row.len().min(size as usize);
        prop_assert_eq!(sparse.ids().len(), n_kept);
        prop_assert!(sparse.ids().contains(&drafted.token));
        prop_assert!(sparse.weights().iter().all(|weight| *weight >= 1));
        prop_assert_eq!(sparse.total(), sparse.weights().iter().map(|weight| u64::from(*weight)).sum::<u64>());
        prop_assert!((sparse.total() as f64 - QUANTUM_COUNT).abs() <= n_kept as f64);
        for left in 0..n_kept {
            for right in 0..n_kept {
                let (of_left, of_right) = (shaped.weight(sparse.ids()[left]), shaped.weight(sparse.ids()[right]));
                prop_assert!(of_left < of_right || sparse.weights()[left] >= sparse.weights()[right]);
            }
        }
    }

    #[test]
    fn full_support_keeps_every_probability(row in prop::collection::vec(-10.0..10.0_f32, 1..400), seed: u64) {
        let shaped = sampled(&row);
        let drafted = draft_token(&shaped, Support::Full, Rule::Standard, &randomness(seed), 0);
        prop_assert!(drafted.distribution.probability(drafted.token) > 0.0);
        for token in 0..row.len() as TokenId {
            prop_assert!((drafted.distribution.probability(token) - shaped.probability(token)).abs() < 1e-6);
        }
    }
}

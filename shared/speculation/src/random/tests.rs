#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn verify(seed: u64) -> VerifyRandom {
    VerifyRandom::new(&RequestSeed::from_u64(seed))
}

fn draft(seed: u64) -> DraftRandom {
    DraftRandom::new(&RequestSeed::from_u64(seed).draft_seed())
}

/// Pinned, because a seed that a client kept must go on giving the same text.
#[test]
fn numbers_of_a_seed_never_change() {
    assert_eq!(verify(7).uniform(10, Purpose::Accept).to_bits(), 4_599_386_807_891_220_126);
    assert_eq!(verify(7).uniform(10, Purpose::Choose).to_bits(), 4_599_422_106_042_502_296);
    assert_eq!(draft(7).bits(10), 1_627_367_190_308_041_454);
    let noise = SharedNoise::new(&RequestSeed::from_u64(7).draft_seed());
    assert!((noise.waiting_time(10, 3) - 0.824_972_674_438_133_6).abs() < 1e-12);
}

#[test]
fn every_purpose_position_and_seed_has_a_number_of_its_own() {
    let mut seen = HashSet::new();
    for seed in 0..20 {
        for position in 0..50 {
            assert!(seen.insert(verify(seed).uniform(position, Purpose::Accept).to_bits()));
            assert!(seen.insert(verify(seed).uniform(position, Purpose::Choose).to_bits()));
            assert!(seen.insert(verify(seed).uniform(position, Purpose::Rank).to_bits()));
            assert!(seen.insert(draft(seed).uniform(position).to_bits()));
        }
    }
}

#[test]
fn positions_past_32_bits_are_told_apart() {
    let numbers = verify(1);
    assert_ne!(numbers.uniform(5, Purpose::Accept), numbers.uniform(5 + (1 << 32), Purpose::Accept));
}

#[test]
fn answers_to_one_request_have_seeds_of_their_own() {
    let parent = RequestSeed::from_u64(3);
    assert_ne!(parent.child(0), parent);
    assert_ne!(parent.child(0), parent.child(1));
    assert_eq!(parent.child(1), RequestSeed::from_u64(3).child(1));
}

#[test]
fn requests_without_a_seed_differ() {
    assert_ne!(RequestSeed::from_entropy(), RequestSeed::from_entropy());
}

#[test]
fn seeds_do_not_show_in_logs() {
    let seed = RequestSeed::from_u64(3);
    assert_eq!(format!("{seed:?} {:?}", seed.draft_seed()), "RequestSeed(..) DraftSeed(..)");
}

#[test]
fn draw_test_and_correction_are_uncorrelated() {
    let n_seeds = 20_000;
    let triples: Vec<[f64; 3]> = (0..n_seeds)
        .map(|seed| {
            let numbers = verify(seed);
            [numbers.uniform(0, Purpose::Accept), numbers.uniform(0, Purpose::Choose), draft(seed).uniform(0)]
        })
        .collect();
    for (left, right) in [(0, 1), (0, 2), (1, 2)] {
        let covariance: f64 =
            triples.iter().map(|triple| (triple[left] - 0.5) * (triple[right] - 0.5)).sum::<f64>() / n_seeds as f64;
        // Variances are 1/12, so the standard error of the correlation is 1/sqrt(n).
        let correlation = covariance * 12.0;
        assert!(correlation.abs() < 5.0 / (n_seeds as f64).sqrt(), "{left} and {right}: {correlation}");
    }
}

proptest! {
    #[test]
    fn uniforms_lie_in_the_half_open_interval(seed: u64, position: u64) {
        for value in [verify(seed).uniform(position, Purpose::Accept), draft(seed).uniform(position)] {
            prop_assert!((0.0..1.0).contains(&value));
        }
    }
}

#[test]
fn the_greatest_uniform_is_below_one() {
    assert_eq!(uniform(u64::MAX), 1.0 - f64::EPSILON / 2.0);
    assert_eq!(uniform(0), 0.0);
}

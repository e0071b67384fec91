//! The same law with real numbers: many seeds through the production path, and a chi-square test.
//!
//! The statistic of a right law has mean df and standard deviation sqrt(2 df). Tests fail ten standard deviations above
//! the mean: by chance once in ten thousand laws with one degree of freedom, and ever more rarely with more. Seeds are
//! fixed, so no run is unlucky.

use specfleet_speculation::TokenId;
use specfleet_speculation::accept::{Choices, Judge, Standard, Verdict};
use specfleet_speculation::distribution::{DenseWeights, DraftDistribution, Error, Proposal, SparseWeights};
use specfleet_speculation::law::{self, Law};
use specfleet_speculation::propose::{Rule, Support};
use specfleet_speculation::random::{Purpose, RequestSeed, VerifyRandom, VerifyRandomness};
use specfleet_speculation::round::{self, RoundInput};
use specfleet_speculation::transform::{SamplingParams, TokenCounts, Transforms, Vocabulary};

use crate::pair::{Pair, falling, logits, rising};

const N_SEEDS: u64 = 20_000;

/// The chi-square statistic of counts against probabilities, and the threshold for it.
pub(crate) fn chi_square(counts: &[u64], probabilities: &[f64]) -> (f64, f64) {
    let n: u64 = counts.iter().sum();
    let cells = counts.iter().zip(probabilities);
    let statistic = cells
        .map(|(count, probability)| {
            let expected = probability * n as f64;
            // A single token where none can be is proof enough.
            if expected == 0.0 {
                if *count == 0 { 0.0 } else { f64::INFINITY }
            } else {
                (*count as f64 - expected).powi(2) / expected
            }
        })
        .sum();
    let degrees = (probabilities.iter().filter(|probability| **probability > 0.0).count() - 1) as f64;
    (statistic, degrees + 10.0 * (2.0 * degrees).sqrt())
}

/// How often each token comes out of a generator that gives one for every seed.
pub(crate) fn counts(n_vocab: usize, generate: impl Fn(u64) -> TokenId) -> Vec<u64> {
    let mut counts = vec![0; n_vocab];
    (0..N_SEEDS).for_each(|seed| counts[generate(seed) as usize] += 1);
    counts
}

#[track_caller]
pub(crate) fn assert_law(name: &str, counts: &[u64], probabilities: &[f64]) {
    let (statistic, threshold) = chi_square(counts, probabilities);
    println!("{name:<56} chi-square {statistic:8.2}, threshold {threshold:.2}, counts {counts:?}");
    assert!(statistic < threshold, "{name}: {counts:?} is not the law {probabilities:?}");
}

#[track_caller]
fn assert_not_law(name: &str, counts: &[u64], probabilities: &[f64]) {
    let (statistic, threshold) = chi_square(counts, probabilities);
    println!("{name:<56} chi-square {statistic:8.2}, threshold {threshold:.2}, counts {counts:?}");
    assert!(statistic > threshold, "{name} passed the check");
}

fn supports() -> [Support; 3] {
    let top = |size: u32| Support::Top(size.try_into().unwrap());
    [top(64), top(2), Support::Full]
}

#[test]
fn the_output_law_is_the_targets_for_a_reversed_draft() {
    for support in supports() {
        let pair = Pair { support, ..Pair::new(rising, falling) };
        let counts = counts(4, |seed| pair.generate(seed).tokens[0]);
        assert_law(&format!("reversed draft, {support:?}"), &counts, &[0.1, 0.2, 0.3, 0.4]);
    }
}

#[test]
fn every_position_of_a_long_round_has_the_targets_law() {
    let pair = Pair { draft_length: 4, n_tokens: 6, ..Pair::new(rising, falling) };
    for position in 0..6 {
        let counts = counts(4, |seed| pair.generate(seed).tokens[position]);
        assert_law(&format!("position {position} of rounds of four"), &counts, &[0.1, 0.2, 0.3, 0.4]);
    }
}

/// Wide enough for draws that walk over blocks, and for a support that leaves most of q out.
#[test]
fn the_law_of_a_wide_vocabulary_holds() {
    fn target(_: &[TokenId]) -> Vec<f32> {
        (0..300).map(|id| (id * 37 % 101) as f32 * 0.02).collect()
    }
    fn draft(_: &[TokenId]) -> Vec<f32> {
        (0..300).map(|id| (id * 53 % 97) as f32 * 0.05).collect()
    }
    let weights = target(&[]).into_iter().map(|logit| f64::from(logit).exp());
    let total: f64 = weights.clone().sum();
    let p: Vec<f64> = weights.map(|weight| weight / total).collect();
    for support in supports() {
        let pair = Pair { support, n_tokens: 2, ..Pair::new(target, draft) };
        for position in 0..2 {
            let counts = counts(300, |seed| pair.generate(seed).tokens[position]);
            let (statistic, threshold) = chi_square(&counts, &p);
            println!("300 ids, {support:?}, position {position}: chi-square {statistic:.1}, threshold {threshold:.1}");
            assert!(statistic < threshold);
        }
    }
}

#[test]
fn neighbouring_tokens_are_independent() {
    let pair = Pair { draft_length: 2, n_tokens: 3, ..Pair::new(rising, falling) };
    let p = [0.1, 0.2, 0.3, 0.4];
    let joint: Vec<f64> = p.iter().flat_map(|first| p.iter().map(move |second| first * second)).collect();
    for first in 0..2 {
        let counts = counts(16, |seed| {
            let tokens = pair.generate(seed).tokens;
            4 * tokens[first] + tokens[first + 1]
        });
        assert_law(&format!("tokens {first} and {} together", first + 1), &counts, &joint);
    }
}

/// Acceptance is the overlap of p and q, and positions survive in its powers.
#[test]
fn acceptance_is_the_overlap() {
    let pair = Pair { draft_length: 4, n_tokens: 5, ..Pair::new(rising, falling) };
    let (mut survived, mut n_tokens) = ([0_u64; 4], 0);
    for seed in 0..N_SEEDS {
        let round = pair.generate(seed).rounds[0].clone();
        survived.iter_mut().take(round.n_accepted).for_each(|count| *count += 1);
        n_tokens += round.committed.len();
    }
    let survival = survived.map(|count| count as f64 / N_SEEDS as f64);
    let per_round = n_tokens as f64 / N_SEEDS as f64;
    println!("survival {survival:.4?}, tokens per round {per_round:.4}");
    for (found, expected) in survival.iter().zip([0.6, 0.36, 0.216, 0.1296]) {
        let standard_error = (expected * (1.0 - expected) / N_SEEDS as f64).sqrt();
        assert!((found - expected).abs() < 5.0 * standard_error, "{found} against {expected}");
    }
    assert!((per_round - 2.3056).abs() < 0.05);
}

/// P follows the client's parameters, q whatever the draft really did.
#[test]
fn the_law_follows_the_clients_temperature_whatever_the_draft_does() {
    let params = SamplingParams { temperature: 0.5, ..SamplingParams::default() };
    let expected = [1.0 / 30.0, 4.0 / 30.0, 9.0 / 30.0, 16.0 / 30.0];
    for draft_params in [None, Some(SamplingParams::default())] {
        let pair = Pair { params: params.clone(), draft_params, ..Pair::new(rising, falling) };
        let counts = counts(4, |seed| pair.generate(seed).tokens[0]);
        assert_law("temperature 0.5", &counts, &expected);
        assert_not_law("  the same against temperature 1", &counts, &[0.1, 0.2, 0.3, 0.4]);
    }
}

/// Top-k on both sides.
#[test]
fn the_law_is_cut_like_the_client_asked() {
    let draft = |_: &[TokenId]| logits(&[0.3, 0.4, 0.2, 0.1]);
    let params = SamplingParams { top_k: 2, ..SamplingParams::default() };
    let pair = Pair { params, ..Pair::new(|_| logits(&[0.4, 0.3, 0.2, 0.1]), draft) };
    let counts = counts(4, |seed| pair.generate(seed).tokens[0]);
    assert_law("top-k 2", &counts, &[4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0]);
    // Drawn from and reported as [3/7, 4/7, 0, 0]. With q from before the cut everything would pass.
    let n_accepted: usize = (0..N_SEEDS).map(|seed| pair.generate(seed).rounds[0].n_accepted).sum();
    let share = n_accepted as f64 / N_SEEDS as f64;
    assert!((share - 6.0 / 7.0).abs() < 0.0125, "{share}");
}

/// The same transform at draft, corrected and bonus positions.
#[test]
fn min_p_holds_at_bonus_positions_too() {
    let params = SamplingParams { min_p: 0.2, ..SamplingParams::default() };
    let target = |_: &[TokenId]| logits(&[0.6, 0.3, 0.06, 0.04]);
    let draft_params = Some(SamplingParams::default());
    let pair = Pair { params, draft_params, n_tokens: 2, ..Pair::new(target, |_| vec![0.0; 4]) };
    for position in 0..2 {
        let counts = counts(4, |seed| pair.generate(seed).tokens[position]);
        assert_law(&format!("min-p at position {position}"), &counts, &[2.0 / 3.0, 1.0 / 3.0, 0.0, 0.0]);
    }
}

/// Ids that the draft does not know appear by correction, ids without probability never.
#[test]
fn a_draft_that_knows_fewer_ids_keeps_the_law() {
    let target = |_: &[TokenId]| logits(&[0.1, 0.2, 0.3, 0.2, 0.2, 0.0]);
    for support in supports() {
        let pair = Pair { support, draft_length: 2, n_tokens: 2, ..Pair::new(target, falling) };
        let counts = counts(6, |seed| pair.generate(seed).tokens[1]);
        assert_law("target of six ids, draft of four", &counts, &[0.1, 0.2, 0.3, 0.2, 0.2, 0.0]);
    }
}

/// A draft that only knows its arg max reports a point, and the law holds.
#[test]
fn a_point_draft_keeps_the_law() {
    let draft_params = Some(SamplingParams { temperature: 0.0, ..SamplingParams::default() });
    let pair = Pair { draft_params, ..Pair::new(rising, falling) };
    let counts = counts(4, |seed| pair.generate(seed).tokens[0]);
    assert_law("draft is a point", &counts, &[0.1, 0.2, 0.3, 0.4]);
}

/// A claim that cannot be true is refused before any token of it is tested, and the round
/// becomes a plain step.
#[test]
fn refused_claims_leave_the_law_alone() {
    let dense = |values: [f32; 4]| DenseWeights::new(values.to_vec()).map(DraftDistribution::Dense);
    let uniform = SparseWeights::new(vec![0, 1], vec![1, 1]).map(DraftDistribution::Sparse);
    let claims: [Result<DraftDistribution, Error>; 5] = [
        dense([f32::NAN; 4]),
        dense([0.5, f32::INFINITY, 0.0, 0.0]),
        dense([0.5, 0.5, -0.1, 0.1]),
        dense([0.3, 0.3, 0.3, 0.0]),
        uniform,
    ];
    let proposals = claims.map(|claim| claim.and_then(|claim| Proposal::new(vec![2], vec![claim], 4)).ok());
    assert!(proposals.iter().all(Option::is_none));

    let p = [0.0, 0.97, 0.02, 0.01];
    let transforms = Transforms::new(SamplingParams::default(), 4).unwrap();
    let counts = counts(4, |seed| {
        let input = RoundInput {
            proposal: proposals[seed as usize % proposals.len()].as_ref(),
            base_length: 1,
            rule: Rule::Standard,
            randomness: &VerifyRandomness::new(&RequestSeed::from_u64(seed)),
            is_end: &|_| false,
            budget: 5,
        };
        let outcome = round::decide(input, |_, before| {
            transforms.shape(&mut logits(&p), Vocabulary::Full, &TokenCounts::new(&[0]), before, None)
        });
        outcome.unwrap().committed[0].token
    });
    assert_law("plain step after a refused claim", &counts, &p);
}

/// The length before an end token is geometric, whatever the draft length.
#[test]
fn lengths_before_an_end_token_are_geometric() {
    let draft_params = Some(SamplingParams { temperature: 0.0, ..SamplingParams::default() });
    for draft_length in [0, 1, 4] {
        let pair = Pair {
            draft_params: draft_params.clone(),
            draft_length,
            n_tokens: 8,
            end: Some(0),
            ..Pair::new(|_| vec![0.0, 0.0], |_| vec![0.0, 1.0])
        };
        // Sequences of eight tokens without an end count as "8 or more".
        let counts =
            counts(9, |seed| pair.generate(seed).tokens.iter().take_while(|token| **token != 0).count() as u32);
        let mut expected: Vec<f64> = (1..=8).map(|length| f64::powi(0.5, length)).collect();
        expected.push(f64::powi(0.5, 8));
        assert_law(&format!("tokens before the end, draft length {draft_length}"), &counts, &expected);
    }
}

/// Streams that use one number twice.
struct SharedNumbers<'a>(&'a VerifyRandom);

impl Choices<f64> for SharedNumbers<'_> {
    fn passes(&mut self, position: u64, favourable: f64, possible: f64) -> bool {
        (&*self.0).passes(position, favourable, possible)
    }

    fn draw<L: Law<Number = f64>>(&mut self, position: u64, law: &L) -> TokenId {
        law::sample(law, self.0.uniform(position, Purpose::Accept))
    }
}

fn one_round(judge: &mut impl Judge<DraftDistribution, DraftDistribution>, share_of_draft: f64) -> TokenId {
    let law =
        |weights: [u32; 4]| DraftDistribution::Sparse(SparseWeights::new(vec![0, 1, 2, 3], weights.to_vec()).unwrap());
    let (target, draft) = (law([1, 2, 3, 4]), law([4, 3, 2, 1]));
    let proposed = law::sample(&draft, share_of_draft);
    match judge.judge(0, proposed, &draft, &target) {
        Verdict::Accepted => proposed,
        Verdict::Corrected(token) => token,
    }
}

/// Numbers that serve two purposes are caught, and independent ones in the same harness pass.
#[test]
fn shared_numbers_are_caught() {
    let p = [0.1, 0.2, 0.3, 0.4];
    let numbers = |seed: u64| VerifyRandom::new(&RequestSeed::from_u64(seed));
    let independent = |seed: u64| VerifyRandom::new(&RequestSeed::from_u64(seed).child(1)).uniform(0, Purpose::Accept);

    let right = counts(4, |seed| one_round(&mut Standard(&numbers(seed)), independent(seed)));
    assert_law("independent numbers", &right, &p);
    let shared = counts(4, |seed| one_round(&mut Standard(SharedNumbers(&numbers(seed))), independent(seed)));
    assert_not_law("test and correction share a number", &shared, &p);
    let shared = counts(4, |seed| {
        let numbers = numbers(seed);
        one_round(&mut Standard(&numbers), numbers.uniform(0, Purpose::Accept))
    });
    assert_not_law("draw and test share a number", &shared, &p);
    let shared = counts(4, |seed| {
        let numbers = numbers(seed);
        one_round(&mut Standard(&numbers), numbers.uniform(0, Purpose::Choose))
    });
    assert_not_law("draw and correction share a number", &shared, &p);
}

//! The draft-invariant rule: the text of a seed is the target's, whatever the draft does, and its law is the target's.

use specfleet_speculation::TokenId;
use specfleet_speculation::propose::{Rule, Support};
use specfleet_speculation::transform::SamplingParams;

use crate::frequencies::{assert_law, counts};
use crate::pair::{Pair, Script, falling, logits, rising};

/// Rows that depend on the last token and the length.
fn wandering(sequence: &[TokenId]) -> Vec<f32> {
    let last = sequence.last().copied().unwrap_or(0) as usize;
    (0..12).map(|id| ((id * 7 + last * 5 + sequence.len() * 3) % 11) as f32 * 0.4).collect()
}

/// Like `wandering`, but less sure and with a taste of its own.
fn similar(sequence: &[TokenId]) -> Vec<f32> {
    wandering(sequence).iter().enumerate().map(|(id, logit)| logit * 0.8 + (id % 3) as f32 * 0.3).collect()
}

fn flat(_: &[TokenId]) -> Vec<f32> {
    vec![0.0; 12]
}

/// Knows only the first five ids.
fn narrow(sequence: &[TokenId]) -> Vec<f32> {
    wandering(sequence)[..5].to_vec()
}

fn seeded(draft: Script, draft_length: usize) -> Pair {
    Pair { rule: Rule::DraftInvariant, draft_length, n_tokens: 40, ..Pair::new(wandering, draft) }
}

#[test]
fn the_text_of_a_seed_does_not_depend_on_the_draft() {
    let drafts: [Script; 4] = [wandering, similar, flat, narrow];
    for seed in 0..20 {
        let plain = seeded(wandering, 0).generate(seed).tokens;
        for draft in drafts {
            for draft_length in 0..=5 {
                assert_eq!(seeded(draft, draft_length).generate(seed).tokens, plain, "length {draft_length}");
            }
        }
    }
}

#[test]
fn other_seeds_give_other_text() {
    assert_ne!(seeded(similar, 3).generate(1).tokens, seeded(similar, 3).generate(2).tokens);
}

#[test]
fn a_perfect_draft_is_always_accepted() {
    let generation = seeded(wandering, 4).generate(3);
    assert!(generation.rounds.iter().all(|round| round.n_accepted == round.n_tested));
    assert_eq!(generation.rounds.len(), 8);
}

#[test]
fn the_law_is_the_targets() {
    for (draft_length, position) in [(0, 0), (1, 0), (3, 0), (3, 1), (3, 4)] {
        let pair = Pair { rule: Rule::DraftInvariant, draft_length, n_tokens: 5, ..Pair::new(rising, falling) };
        let counts = counts(4, |seed| pair.generate(seed).tokens[position]);
        let name = format!("draft-invariant, length {draft_length}, position {position}");
        assert_law(&name, &counts, &[0.1, 0.2, 0.3, 0.4]);
    }
}

#[test]
fn neighbouring_tokens_are_independent() {
    let pair = Pair { rule: Rule::DraftInvariant, draft_length: 2, n_tokens: 2, ..Pair::new(rising, falling) };
    let p = [0.1, 0.2, 0.3, 0.4];
    let joint: Vec<f64> = p.iter().flat_map(|first| p.iter().map(move |second| first * second)).collect();
    let counts = counts(16, |seed| {
        let tokens = pair.generate(seed).tokens;
        4 * tokens[0] + tokens[1]
    });
    assert_law("draft-invariant, two tokens together", &counts, &joint);
}

/// With total variation distance D = 0.4, theory promises at least (1 - D) / (1 + D) = 0.43 where the standard rule
/// has 0.6.
#[test]
fn acceptance_is_a_little_lower_than_under_the_standard_rule() {
    let accepted = |rule| {
        let pair = Pair { rule, n_tokens: 2, ..Pair::new(rising, falling) };
        (0..20_000).map(|seed| pair.generate(seed).rounds[0].n_accepted).sum::<usize>() as f64 / 20_000.0
    };
    let (standard, invariant) = (accepted(Rule::Standard), accepted(Rule::DraftInvariant));
    println!("accepted: standard {standard:.3}, draft-invariant {invariant:.3}");
    assert!(invariant < standard && invariant > 0.42);
}

#[test]
fn transforms_shape_both_sides() {
    let params = SamplingParams { top_k: 2, temperature: 0.5, ..SamplingParams::default() };
    let pair = Pair { params, rule: Rule::DraftInvariant, support: Support::Full, ..Pair::new(rising, falling) };
    let counts = counts(4, |seed| pair.generate(seed).tokens[0]);
    assert_law("draft-invariant, top-k 2 at 0.5", &counts, &[0.0, 0.0, 0.36, 0.64]);
}

#[test]
fn greedy_is_greedy_under_either_rule() {
    let greedy = |rule, draft_length| {
        let pair = Pair { rule, draft_length, n_tokens: 20, ..Pair::greedy(wandering, similar) };
        pair.generate(1).tokens
    };
    let plain = greedy(Rule::Standard, 0);
    assert_eq!(greedy(Rule::DraftInvariant, 3), plain);
    assert_eq!(greedy(Rule::Standard, 3), plain);
}

/// Tokens far in the tail keep their probability: 2^-15 here, where a coarse uniform would already show.
#[test]
fn unlikely_tokens_keep_their_law() {
    let target = |_: &[TokenId]| logits(&[1.0 - 3e-3, 1e-3, 2e-3]);
    let pair = Pair { rule: Rule::DraftInvariant, draft_length: 0, ..Pair::new(target, target) };
    let counts = counts(3, |seed| pair.generate(seed).tokens[0]);
    assert_law("draft-invariant, unlikely tokens", &counts, &[1.0 - 3e-3, 1e-3, 2e-3]);
}

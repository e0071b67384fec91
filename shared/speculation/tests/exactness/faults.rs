//! Faults that people reported in public against systems like this one. Each test is named after the right behaviour
//! and would fail with the fault.

use specfleet_speculation::TokenId;
use specfleet_speculation::round::Origin;
use specfleet_speculation::transform::SamplingParams;

use crate::pair::{Pair, Script, one_hot};

const N_VOCAB: usize = 8;
const END: TokenId = 7;

/// The target's greedy text counts round: 1, 2, 3, 4, 5, 6, 1, ... after a prompt of 0.
fn counting(sequence: &[TokenId]) -> Vec<f32> {
    one_hot((sequence.len() - 1) % 6 + 1, N_VOCAB)
}

fn always_wrong(_: &[TokenId]) -> Vec<f32> {
    one_hot(0, N_VOCAB)
}

/// Wrong at every third position.
fn wrong_now_and_then(sequence: &[TokenId]) -> Vec<f32> {
    if sequence.len().is_multiple_of(3) { always_wrong(sequence) } else { counting(sequence) }
}

/// Fixed, but without any relation to the target.
fn haphazard(sequence: &[TokenId]) -> Vec<f32> {
    let hash = sequence.iter().fold(17_u32, |hash, token| hash.wrapping_mul(31).wrapping_add(*token));
    one_hot(hash as usize % N_VOCAB, N_VOCAB)
}

fn plain(pair: &Pair) -> Vec<TokenId> {
    Pair { draft_length: 0, ..pair.clone() }.generate(1).tokens
}

/// Greedy text is the target's for every draft and every length.
#[test]
fn greedy_text_is_plain_greedy_text() {
    let drafts: [Script; 4] = [counting, always_wrong, wrong_now_and_then, haphazard];
    for draft in drafts {
        for draft_length in 1..=8 {
            let pair = Pair { draft_length, n_tokens: 50, ..Pair::greedy(counting, draft) };
            assert_eq!(pair.generate(1).tokens, plain(&pair));
        }
    }
}

/// Exact ties go to the lowest id on both paths.
#[test]
fn ties_go_to_the_lowest_id_with_and_without_speculation() {
    let tied = |_: &[TokenId]| vec![1.0, 5.0, 5.0, 1.0];
    let other = |_: &[TokenId]| vec![1.0, 1.0, 5.0, 5.0];
    for draft in [tied, other] {
        let pair = Pair { draft_length: 3, n_tokens: 10, ..Pair::greedy(tied, draft) };
        assert_eq!(pair.generate(1).tokens, [1; 10]);
    }
}

/// The first draft token is judged by the row after the last committed token.
#[test]
fn the_first_draft_token_is_judged() {
    // Right only if its own wrong first token were accepted.
    fn consistent_with_two(sequence: &[TokenId]) -> Vec<f32> {
        if sequence.len() == 1 { one_hot(2, N_VOCAB) } else { one_hot(sequence.len(), N_VOCAB) }
    }
    for draft_length in [1, 3] {
        let pair = Pair { draft_length, n_tokens: 1, ..Pair::greedy(counting, consistent_with_two) };
        let generation = pair.generate(1);
        assert_eq!(generation.tokens, [1]);
        assert_eq!(generation.rounds[0].n_accepted, 0);
    }
}

/// A rejection at the second position commits exactly two tokens, and the next draft sees both.
#[test]
fn a_rejection_takes_effect_in_its_own_round() {
    fn wrong_at_every_second(sequence: &[TokenId]) -> Vec<f32> {
        if sequence.len().is_multiple_of(2) { one_hot(0, N_VOCAB) } else { counting(sequence) }
    }
    let pair = Pair { draft_length: 4, n_tokens: 20, ..Pair::greedy(counting, wrong_at_every_second) };
    let generation = pair.generate(1);
    for round in &generation.rounds {
        let origins: Vec<Origin> = round.committed.iter().map(|committed| committed.origin).collect();
        assert_eq!(origins, [Origin::Accepted, Origin::Corrected]);
        assert_eq!((round.n_tested, round.n_accepted), (2, 1));
    }
    assert_eq!(generation.tokens, plain(&pair));
}

/// Parameters are never dropped because speculation is on.
#[test]
fn bias_and_penalties_act_with_and_without_speculation() {
    fn stubborn(_: &[TokenId]) -> Vec<f32> {
        vec![0.0, 1.0, 1.5, 3.0]
    }
    let greedy = SamplingParams { temperature: 0.0, ..SamplingParams::default() };
    let params = [
        SamplingParams { logit_bias: vec![(3, -100.0)], ..greedy.clone() },
        SamplingParams { frequency_penalty: 2.0, ..greedy.clone() },
        SamplingParams { presence_penalty: 2.0, ..greedy.clone() },
        SamplingParams { repetition_penalty: 2.5, ..greedy.clone() },
    ];
    let untouched = plain(&Pair { n_tokens: 12, ..Pair::greedy(stubborn, stubborn) });
    for params in params {
        // The draft does not even know of the parameters.
        for draft_params in [None, Some(greedy.clone())] {
            let pair = Pair {
                params: params.clone(),
                draft_params,
                draft_length: 4,
                n_tokens: 12,
                ..Pair::new(stubborn, stubborn)
            };
            let tokens = pair.generate(1).tokens;
            assert_eq!(tokens, plain(&pair), "{params:?}");
            assert_ne!(tokens, untouched, "{params:?}");
            assert!(params.logit_bias.is_empty() || !tokens.contains(&3));
        }
    }
}

/// A round never exceeds the budget, corrected and bonus tokens included.
#[test]
fn the_budget_is_kept_exactly() {
    for draft in [counting as Script, always_wrong] {
        for n_tokens in 1..=12 {
            let pair = Pair { draft_length: 4, n_tokens, ..Pair::greedy(counting, draft) };
            assert_eq!(pair.generate(1).tokens.len(), n_tokens);
        }
    }
}

/// An end token in the middle of an accepted block ends it; without an end it is a token like others.
#[test]
fn an_accepted_end_token_ends_the_round() {
    fn script(sequence: &[TokenId]) -> Vec<f32> {
        one_hot([1, 2, END as usize, 3, 4][(sequence.len() - 1) % 5], N_VOCAB)
    }
    for draft_length in 1..=5 {
        let pair = Pair { draft_length, n_tokens: 10, end: Some(END), ..Pair::greedy(script, script) };
        let generation = pair.generate(1);
        assert_eq!(generation.tokens, [1, 2, END]);
        // What was drafted after the end is neither tested nor counted.
        assert_eq!(generation.rounds.iter().map(|round| round.committed.len()).sum::<usize>(), 3);
        assert!(generation.rounds.iter().all(|round| round.n_accepted == round.n_tested));

        let ignoring = Pair { end: None, ..pair };
        assert_eq!(ignoring.generate(1).tokens, [1, 2, END, 3, 4, 1, 2, END, 3, 4]);
    }
}

/// The first min_tokens tokens are no end tokens, then the end comes at once.
#[test]
fn min_tokens_counts_drafted_positions_exactly() {
    fn end_is_likely(_: &[TokenId]) -> Vec<f32> {
        vec![2.0, 0.0]
    }
    let draft_length = 4;
    for min_tokens in [0, 1, 2, 4, 5, 6] {
        let params = SamplingParams { temperature: 0.0, min_tokens, end_tokens: vec![0], ..SamplingParams::default() };
        let pair = Pair {
            params,
            draft_length,
            n_tokens: 20,
            prompt: vec![1, 1, 1],
            end: Some(0),
            ..Pair::new(end_is_likely, end_is_likely)
        };
        let mut expected = vec![1; min_tokens as usize];
        expected.push(0);
        assert_eq!(pair.generate(1).tokens, expected);
    }
}

/// What counts as accepted is the leading run; the corrected or bonus token is counted apart.
#[test]
fn only_the_leading_run_counts_as_accepted() {
    // Right, wrong, right, right.
    fn one_mistake(sequence: &[TokenId]) -> Vec<f32> {
        if sequence.len() == 2 { one_hot(0, N_VOCAB) } else { counting(sequence) }
    }
    let generation = Pair { draft_length: 4, n_tokens: 7, ..Pair::greedy(counting, one_mistake) }.generate(1);
    let counts: Vec<_> = generation.rounds.iter().map(|round| (round.n_tested, round.n_accepted)).collect();
    assert_eq!(counts, [(2, 1), (4, 4)]);
    let last = generation.rounds[1].committed.last().map(|committed| committed.origin);
    assert_eq!(last, Some(Origin::Bonus));
}

/// A seed decides the text, and another seed decides another.
#[test]
fn a_seed_decides_the_text() {
    let flat = |_: &[TokenId]| vec![0.0; 50];
    let pair = Pair { draft_length: 3, n_tokens: 64, ..Pair::new(flat, flat) };
    assert_eq!(pair.generate(7).tokens, pair.generate(7).tokens);
    assert_ne!(pair.generate(7).tokens, pair.generate(8).tokens);
}

/// No draft token, and no accepted draft token, still make progress.
#[test]
fn empty_and_hopeless_proposals_commit_one_token() {
    for draft_length in [0, 3] {
        let pair = Pair { draft_length, n_tokens: 5, ..Pair::greedy(counting, always_wrong) };
        let generation = pair.generate(1);
        assert_eq!(generation.tokens, [1, 2, 3, 4, 5]);
        let origin = if draft_length == 0 { Origin::Plain } else { Origin::Corrected };
        assert!(generation.rounds.iter().all(|round| round.committed[0].origin == origin));
    }
}

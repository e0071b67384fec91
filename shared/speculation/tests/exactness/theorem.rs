//! The theorem, as fractions, through the production round and the production rules.
//!
//! Every random choice of a case is followed, with its exact probability: what the draft draws, which tests pass, what is
//! drawn after a rejection; under the draft-invariant rule, which of all orders of [`tickets`](crate::tickets) the shared
//! noise is. The law of the committed sequence then equals the law of plain sampling from the target, fraction by fraction.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Write;

use specfleet_speculation::TokenId;
use specfleet_speculation::accept::Standard;
use specfleet_speculation::coupled::SharedChoice;
use specfleet_speculation::round::Round;

use crate::case::{Case, Coupled, Method, Production};
use crate::cases::{generated, named};
use crate::enumerate::{ExactLaw, ExactOutcomes, Fraction, explore};

/// A line of the table: one case, or several that are alike.
#[derive(Default)]
struct Line {
    name: String,
    n_vocab: usize,
    lengths: String,
    n_tokens: usize,
    n_paths: usize,
    n_sequences: usize,
    /// The law of the first token.
    first: String,
    unequal: Vec<String>,
}

impl Line {
    fn of(case: &Case, method: &impl Method) -> Self {
        let (found, n_paths) = case.outcomes(method);
        let equal = found == case.expected();
        Self {
            name: case.name.clone(),
            n_vocab: case.n_vocab,
            lengths: case.lengths.name.clone(),
            n_tokens: case.n_tokens,
            n_paths,
            n_sequences: found.len(),
            first: first_token(&found),
            unequal: if equal { vec![] } else { vec![case.name.clone()] },
        }
    }
}

/// Prints the table, past the harness, which would hide it. Then fails if any law differs.
fn finish(title: &str, lines: &[Line]) {
    let mut table = format!(
        "\n{title}\n\n{:<50} {:>5} {:>13} {:>6} {:>7} {:>9}  {:<5}  first token\n",
        "case", "vocab", "draft lengths", "tokens", "paths", "sequences", "equal"
    );
    for line in lines {
        let equal = if line.unequal.is_empty() { "yes" } else { "NO" };
        table += &format!(
            "{:<50} {:>5} {:>13} {:>6} {:>7} {:>9}  {equal:<5}  {}\n",
            line.name, line.n_vocab, line.lengths, line.n_tokens, line.n_paths, line.n_sequences, line.first
        );
    }
    // Nobody misses a table on a closed pipe.
    let _ = std::io::stdout().write_all(table.as_bytes());
    let unequal: Vec<_> = lines.iter().flat_map(|line| &line.unequal).collect();
    assert!(unequal.is_empty(), "the output law is not the target's: {unequal:?}");
}

fn check_named(title: &str, method: &impl Method) {
    finish(title, &named().iter().map(|case| Line::of(case, method)).collect::<Vec<_>>());
}

/// One line for all cases with as many ids.
fn check_generated(title: &str, method: &impl Method) {
    let mut lines: BTreeMap<usize, (usize, Line)> = BTreeMap::new();
    for case in generated(n_generated()) {
        let (n_cases, sum) = lines.entry(case.n_vocab).or_default();
        let Line { n_paths, n_sequences, unequal, .. } = Line::of(&case, method);
        *n_cases += 1;
        *sum = Line {
            name: format!("{n_cases} generated cases"),
            n_vocab: case.n_vocab,
            lengths: "mixed".to_owned(),
            n_tokens: sum.n_tokens.max(case.n_tokens),
            n_paths: sum.n_paths + n_paths,
            n_sequences: sum.n_sequences + n_sequences,
            first: String::new(),
            unequal: [std::mem::take(&mut sum.unequal), unequal].concat(),
        };
    }
    finish(title, &lines.into_values().map(|(_, line)| line).collect::<Vec<_>>());
}

fn n_generated() -> u64 {
    if std::env::var_os("SPECFLEET_TEST_LONG").is_some() { 2000 } else { 400 }
}

fn first_token(outcomes: &ExactOutcomes<Vec<TokenId>>) -> String {
    let mut law: BTreeMap<TokenId, Fraction> = BTreeMap::new();
    for (tokens, probability) in outcomes {
        *law.entry(tokens[0]).or_default() += probability;
    }
    law.iter().map(|(token, probability)| format!("{token}: {probability}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_output_law_is_the_targets_in_named_cases() {
    check_named("The standard rule, every path", &Production);
}

#[test]
fn the_output_law_is_the_targets_in_generated_cases() {
    check_generated("The standard rule, every path of generated cases", &Production);
}

#[test]
fn the_output_law_under_shared_noise_is_the_targets_in_named_cases() {
    check_named("The draft-invariant rule, every order of the noise", &Coupled);
}

#[test]
fn the_output_law_under_shared_noise_is_the_targets_in_generated_cases() {
    check_generated("The draft-invariant rule, every order of the noise, generated cases", &Coupled);
}

/// On every path, what is committed is what plain decoding would have chosen under the same noise.
#[test]
fn under_shared_noise_the_text_is_that_of_plain_decoding() {
    for case in named().into_iter().chain(generated(n_generated())) {
        explore(|branches| {
            let tokens = case.generate(&Coupled, branches);
            for (position, token) in tokens.iter().enumerate() {
                let law = case.target_law(&tokens[..position]);
                assert_eq!(branches.choose(position as u64, &law), *token, "{}", case.name);
            }
        });
    }
}

/// Rows after a rejection would be conditioned on a token that is not there.
#[test]
fn rows_after_a_rejection_are_never_asked_for() {
    let laws = vec![ExactLaw::from_weights(&[1, 0]); 3];
    explore(|branches| {
        let round = Round { tokens: &[0, 0, 0], distributions: &laws, base_length: 0, is_end: &|_| false, budget: 10 };
        let mut asked = vec![];
        let target_row = |index: usize, _: &[TokenId]| {
            asked.push(index);
            Ok::<_, Infallible>(ExactLaw::from_weights(if index == 1 { &[0, 1] } else { &[1, 0] }))
        };
        let Ok(outcome) = round.decide(&mut Standard(branches), target_row);
        assert_eq!((outcome.n_tested, outcome.n_accepted), (2, 1));
        assert_eq!(asked, [0, 1]);
    });
}

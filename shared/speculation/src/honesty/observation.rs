//! What the audit needs to know of a tested position, taken down where the position is tested.

use crate::TokenId;
use crate::accept::{Judge, Standard, Verdict};
use crate::distribution::DraftDistribution;
use crate::law::Law;
use crate::propose::Rule;
use crate::random::{Purpose, VerifyRandom};
use crate::round::{self, Round, RoundInput, RoundOutcome};
use crate::transform::Shaped;

/// A position that the standard rule has tested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// How likely a token drawn from q was to pass: the sum of min(p, q).
    pub expected: f64,
    /// Whether the token passed.
    pub accepted: bool,
    /// Where the token fell in [0, 1), with the ids laid out by falling q. Uniform if it was drawn from q.
    pub rank: f64,
    /// Where the token fell in [0, 1), with the ids laid out in ascending order. Uniform if it was drawn from q.
    pub place: f64,
}

/// Decides a round as [`round::decide`] does, and takes down every position that was tested and whose q claims anything.
/// What is taken down follows from the decision and never the other way round.
///
/// The randomness must be of a seed that nobody could choose or use again; otherwise call [`round::decide`].
pub fn decide<E>(
    input: RoundInput<'_>,
    observations: &mut Vec<Observation>,
    target_row: impl FnMut(usize, &[TokenId]) -> Result<Shaped, E>,
) -> Result<RoundOutcome, E> {
    match input.rule {
        Rule::DraftInvariant => round::decide(input, target_row),
        Rule::Standard => {
            let numbers = &input.randomness.numbers;
            Round::of(&input).decide(&mut Observed { rule: Standard(numbers), numbers, observations }, target_row)
        }
    }
}

/// The standard rule with somebody who looks on.
struct Observed<'a> {
    rule: Standard<&'a VerifyRandom>,
    numbers: &'a VerifyRandom,
    observations: &'a mut Vec<Observation>,
}

impl<Target: Law<Number = f64>> Judge<Target, DraftDistribution> for Observed<'_> {
    fn judge(&mut self, position: u64, proposed: TokenId, draft: &DraftDistribution, target: &Target) -> Verdict {
        let verdict = self.rule.judge(position, proposed, draft, target);
        if !matches!(draft, DraftDistribution::Point(_)) {
            let within = self.numbers.uniform(position, Purpose::Rank);
            self.observations.push(Observation {
                expected: expected_acceptance(draft, target),
                accepted: verdict == Verdict::Accepted,
                rank: rank(draft, proposed, within),
                place: place(draft, proposed, within),
            });
        }
        verdict
    }

    fn choose(&mut self, position: u64, target: &Target) -> TokenId {
        Judge::<Target, DraftDistribution>::choose(&mut self.rule, position, target)
    }
}

/// The sum of min(p, q), from the same numbers as the accept test.
fn expected_acceptance(draft: &DraftDistribution, target: &impl Law<Number = f64>) -> f64 {
    let (draft_total, target_total) = (draft.total(), target.total());
    let common = sum(draft, |id, weight| (weight * target_total).min(target.weight(id) * draft_total));
    (common / (draft_total * target_total)).min(1.0)
}

/// The share of q that is likelier than the token (or as likely, and of a lower id), and `within` of its own.
fn rank(draft: &DraftDistribution, token: TokenId, within: f64) -> f64 {
    let own = draft.weight(token);
    let before = sum(draft, |id, weight| {
        let is_before = weight > own || (weight == own && id < token);
        if is_before { weight } else { 0.0 }
    });
    (before + within * own) / draft.total()
}

/// The share of q below the token's id, and `within` of its own.
fn place(draft: &DraftDistribution, token: TokenId, within: f64) -> f64 {
    let before = sum(draft, |id, weight| if id < token { weight } else { 0.0 });
    (before + within * draft.weight(token)) / draft.total()
}

fn sum(draft: &DraftDistribution, value: impl Fn(TokenId, f64) -> f64) -> f64 {
    match draft {
        DraftDistribution::Point(token) => value(*token, 1.0),
        DraftDistribution::Sparse(sparse) => {
            let entries = sparse.ids().iter().zip(sparse.weights());
            entries.map(|(id, weight)| value(*id, f64::from(*weight))).sum()
        }
        DraftDistribution::Dense(dense) => {
            (0..).zip(dense.values()).map(|(id, weight)| value(id, f64::from(*weight))).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::distribution::{DenseWeights, SparseWeights};

    /// q = [.1 - .4 .3 .2] over the ids 0, 2, 3, 5: laid out by falling q that is 2, 3, 5, 0.
    fn sparse() -> DraftDistribution {
        DraftDistribution::Sparse(SparseWeights::new(vec![0, 2, 3, 5], vec![1, 4, 3, 2]).unwrap())
    }

    fn dense() -> DraftDistribution {
        DraftDistribution::Dense(DenseWeights::new(vec![0.125, 0.0, 0.375, 0.25, 0.0, 0.25]).unwrap())
    }

    #[test]
    fn likely_tokens_come_first() {
        for (token, rank_of_token) in [(2, 0.0), (3, 0.4), (5, 0.7), (0, 0.9)] {
            assert!((rank(&sparse(), token, 0.0) - rank_of_token).abs() < 1e-15, "token {token}");
        }
        assert!((rank(&sparse(), 3, 0.5) - 0.55).abs() < 1e-15);
    }

    #[test]
    fn equally_likely_tokens_stand_in_order_of_ids() {
        assert_eq!([2, 3, 5, 0].map(|token| rank(&dense(), token, 0.0)), [0.0, 0.375, 0.625, 0.875]);
    }

    #[test]
    fn places_follow_the_order_of_ids() {
        assert_eq!([0, 2, 3, 5].map(|token| place(&dense(), token, 0.0)), [0.0, 0.125, 0.5, 0.75]);
        assert_eq!(place(&sparse(), 2, 0.5), 0.3);
    }

    #[test]
    fn a_token_passes_as_often_as_both_sides_have_in_common() {
        assert!((expected_acceptance(&sparse(), &dense()) - (0.1 + 0.375 + 0.25 + 0.2)).abs() < 1e-15);
        assert_eq!(expected_acceptance(&sparse(), &sparse()), 1.0);
        assert_eq!(expected_acceptance(&sparse(), &DraftDistribution::Point(1)), 0.0);
    }
}

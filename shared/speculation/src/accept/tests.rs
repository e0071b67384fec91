#![allow(clippy::unwrap_used)]

use super::*;
use crate::law::tests::Weights;

/// Numbers as the test wants them, used as the streams use theirs.
struct Given {
    accept: f64,
    choose: f64,
}

impl Choices<f64> for Given {
    fn passes(&mut self, _position: u64, favourable: f64, possible: f64) -> bool {
        passes(self.accept, favourable, possible)
    }

    fn draw<L: Law<Number = f64>>(&mut self, _position: u64, law: &L) -> TokenId {
        law::sample(law, self.choose)
    }
}

/// The greatest number below 1 that the streams produce.
const ALMOST_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

fn judge(accept: f64, choose: f64, proposed: TokenId, draft: &[f64], target: &[f64]) -> Verdict {
    let (draft, target) = (Weights(draft.to_vec()), Weights(target.to_vec()));
    Standard(Given { accept, choose }).judge(0, proposed, &draft, &target)
}

/// An excluded token fails even with the number 0.
#[test]
fn a_token_that_the_target_excludes_is_never_accepted() {
    assert_eq!(judge(0.0, 0.0, 0, &[0.5, 0.5], &[0.0, 1.0]), Verdict::Corrected(1));
    assert_eq!(judge(0.0, 0.9, 1, &[0.5, 0.5, 0.0, 0.0], &[0.0, 0.0, 0.5, 0.5]), Verdict::Corrected(3));
}

/// P = q accepts, whatever the number.
#[test]
fn equal_distributions_accept_with_any_number() {
    for accept in [0.0, 0.5, 1.0 - 2.0_f64.powi(-24), ALMOST_ONE] {
        assert_eq!(judge(accept, 0.5, 1, &[0.0, 1.0, 0.0, 0.0], &[0.0, 1.0, 0.0, 0.0]), Verdict::Accepted);
        assert_eq!(judge(accept, 0.5, 1, &[1.0, 2.0, 1.0], &[0.25, 0.5, 0.25]), Verdict::Accepted);
    }
}

/// Rounding may reject where the residual is all but gone.
#[test]
fn a_vanishing_residual_still_gives_a_token_of_the_target() {
    let target = [0.25, 0.25, 0.25, 0.25];
    for raised in 0..4 {
        for excess in [1e-7, 1e-12, 1e-16, f64::EPSILON / 4.0] {
            let mut draft = target;
            draft[raised] += excess;
            for proposed in 0..4 {
                for choose in [0.0, 0.5, ALMOST_ONE] {
                    if let Verdict::Corrected(token) = judge(ALMOST_ONE, choose, proposed, &draft, &target) {
                        assert!(token < 4);
                    }
                }
            }
        }
    }
}

/// A rejection without a positive part of p - q cannot happen in exact arithmetic; a test that rejects everything
/// forces it.
#[test]
fn a_residual_of_nothing_falls_back_to_the_target() {
    struct Reject;
    impl Choices<f64> for Reject {
        fn passes(&mut self, _: u64, _: f64, _: f64) -> bool {
            false
        }
        fn draw<L: Law<Number = f64>>(&mut self, _: u64, law: &L) -> TokenId {
            law::sample(law, 0.6)
        }
    }
    let law = Weights(vec![0.0, 1.0, 1.0]);
    assert!(Residual::new(&law, &law).is_none());
    assert_eq!(Standard(Reject).judge(0, 1, &law, &law), Verdict::Corrected(2));
}

/// Ratios of numbers that half precision cannot hold.
#[test]
fn tiny_probabilities_keep_their_ratio() {
    let (target, draft) = ([1e-9, 1.0 - 1e-9], [2e-8, 1.0 - 2e-8]);
    assert_eq!(judge(0.0499, 0.5, 0, &draft, &target), Verdict::Accepted);
    assert_eq!(judge(0.0501, 0.5, 0, &draft, &target), Verdict::Corrected(1));
}

/// The residual is divided by its sum; ids that q overstates cannot be drawn from it.
#[test]
fn the_residual_is_the_positive_part() {
    let (target, draft) = (Weights(vec![0.1, 0.2, 0.3, 0.4]), Weights(vec![4.0, 3.0, 2.0, 1.0]));
    let residual = Residual::new(&target, &draft).unwrap();
    let law: Vec<f64> = (0..4).map(|token| residual.weight(token) / residual.total()).collect();
    let expected = [0.0, 0.0, 0.25, 0.75];
    assert!(law.iter().zip(expected).all(|(left, right)| (left - right).abs() < 1e-12), "{law:?}");
}

#[test]
fn the_residual_of_a_wide_law_adds_up_over_blocks() {
    let width = 10 * BLOCK + 7;
    let target = Weights((0..width).map(|id| (id % 13) as f64).collect());
    let mut draft = vec![0.0; width];
    (draft[70], draft[71], draft[500]) = (1.0, 2.0, 3.0);
    let draft = Weights(draft);
    let residual = Residual::new(&target, &draft).unwrap();
    let direct: f64 = (0..width as TokenId).map(|token| residual.weight(token)).sum();
    assert!((residual.total() - direct).abs() < 1e-9 * direct);
}

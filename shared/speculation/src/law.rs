//! What the acceptance rule needs to know about a distribution, and how to draw from one.
//!
//! The target's row, the draft's claim and the residual between them are stored in very different ways: a dense row
//! of f32 weights, a handful of integers, a difference that is never written down. The rule sees all three as a
//! [`Law`]: unnormalised weights over token ids. The number type is open, so that the tests can put exact fractions
//! through the very code that serves requests in f64.

use num_traits::Num;

use crate::TokenId;

/// Ids of one block. A draw walks over the totals of blocks first and then over one block, so it reads about a
/// thousand numbers of a vocabulary of fifty thousand.
pub const BLOCK: usize = 64;

/// A number type that the acceptance rule can compute in: f64 when serving, exact fractions in proofs.
pub trait Number: Num + Clone + PartialOrd {}

impl<T: Num + Clone + PartialOrd> Number for T {}

/// A probability distribution over token ids as unnormalised weights: `p(id) = weight(id) / total()`.
///
/// No weight is negative and the total is positive.
pub trait Law {
    /// The type of weights.
    type Number: Number;

    /// One more than the highest id that may have weight.
    fn width(&self) -> usize;

    /// Weight of an id; 0 for ids the law does not know.
    fn weight(&self, token: TokenId) -> Self::Number;

    /// Sum of all weights.
    fn total(&self) -> Self::Number;

    /// Sum of the weights of the ids in `block * BLOCK .. (block + 1) * BLOCK`.
    fn block_total(&self, block: usize) -> Self::Number {
        ids_of_block(block, self.width()).fold(num_traits::zero(), |sum, token| sum + self.weight(token))
    }
}

/// The ids of a block of a law that is `width` ids wide.
pub fn ids_of_block(block: usize, width: usize) -> impl Iterator<Item = TokenId> {
    let end = width.min((block + 1) * BLOCK);
    (block * BLOCK..end).map(|id| id as TokenId)
}

/// The id that holds the point `share * total` when the weights are laid end to end in ascending order of ids.
///
/// With `share` uniform in [0, 1) this draws from the law. An id without weight is never returned, whatever rounding
/// does at the borders.
pub fn sample<L: Law<Number = f64>>(law: &L, share: f64) -> TokenId {
    let blocks = 0..law.width().div_ceil(BLOCK);
    let point = share * law.total();
    let drawn = walk(blocks, |block| law.block_total(block), point)
        .and_then(|(block, rest)| walk(ids_of_block(block, law.width()), |token| law.weight(token), rest));
    let (token, _) = drawn.expect("the total of a law is positive");
    token
}

/// The first item whose weight exceeds what is left of `point` after the items before it, and what is left there.
/// When rounding carries the point past the end: the last item with weight, and infinity.
fn walk<T: Copy>(items: impl Iterator<Item = T>, weight: impl Fn(T) -> f64, point: f64) -> Option<(T, f64)> {
    let mut rest = point;
    let mut last = None;
    for item in items {
        let weight = weight(item);
        if rest < weight {
            return Some((item, rest));
        }
        if weight > 0.0 {
            last = Some(item);
        }
        rest -= weight;
    }
    last.map(|item| (item, f64::INFINITY))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Unnormalised weights in f64.
    pub(crate) struct Weights(pub(crate) Vec<f64>);

    impl Law for Weights {
        type Number = f64;

        fn width(&self) -> usize {
            self.0.len()
        }

        fn weight(&self, token: TokenId) -> f64 {
            self.0.get(token as usize).copied().unwrap_or(0.0)
        }

        fn total(&self) -> f64 {
            (0..self.width().div_ceil(BLOCK)).map(|block| self.block_total(block)).sum()
        }
    }

    /// The greatest number below 1 that the random streams can produce.
    const ALMOST_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

    #[test]
    fn shares_fall_on_the_ids_that_own_them() {
        let law = Weights(vec![0.0, 1.0, 0.0, 3.0, 0.0]);
        for (share, token) in [(0.0, 1), (0.2499, 1), (0.25, 3), (0.9, 3), (ALMOST_ONE, 3)] {
            assert_eq!(sample(&law, share), token, "share {share}");
        }
    }

    proptest! {
        #[test]
        fn a_draw_always_has_weight(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-30..1.0f64], 1..300),
            share in prop_oneof![Just(0.0), Just(ALMOST_ONE), 0.0..1.0f64],
        ) {
            prop_assume!(weights.iter().any(|weight| *weight > 0.0));
            let law = Weights(weights);
            prop_assert!(law.weight(sample(&law, share)) > 0.0);
        }

        #[test]
        fn a_draw_is_the_inverse_of_the_running_sum(
            weights in prop::collection::vec(0u32..50, 1..300),
            share in 0.0..1.0f64,
        ) {
            // Small integers: every sum is exact, so the answer is known without a tolerance.
            let total: u32 = weights.iter().sum();
            prop_assume!(total > 0);
            let law = Weights(weights.iter().map(|weight| f64::from(*weight)).collect());
            let mut running = 0.0;
            let expected = weights.iter().position(|weight| {
                running += f64::from(*weight);
                share * f64::from(total) < running
            });
            prop_assert_eq!(Some(sample(&law, share) as usize), expected);
        }
    }
}

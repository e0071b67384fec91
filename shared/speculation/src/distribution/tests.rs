#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn sparse(ids: &[TokenId], weights: &[u32]) -> DraftDistribution {
    DraftDistribution::Sparse(SparseWeights::new(ids.to_vec(), weights.to_vec()).unwrap())
}

#[test]
fn malformed_sparse_weights_are_refused_with_the_reason() {
    let cases = [
        (vec![], vec![], Error::Empty),
        (vec![1, 2], vec![1], Error::UnequalLengths { n_ids: 2, n_weights: 1 }),
        (vec![1, 1], vec![1, 1], Error::NotAscending { index: 1, id: 1, before: 1 }),
        (vec![4, 9, 2], vec![1, 1, 1], Error::NotAscending { index: 2, id: 2, before: 9 }),
        (vec![4, 9], vec![1, 0], Error::ZeroWeight { id: 9 }),
    ];
    for (ids, weights, error) in cases {
        assert_eq!(SparseWeights::new(ids, weights), Err(error));
    }
}

/// NaN, infinity, negative values and a wrong sum void the draft.
#[test]
fn malformed_dense_values_are_refused_with_the_reason() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.1] {
        let error = DenseWeights::new(vec![0.5, bad, 0.5]).unwrap_err();
        assert!(matches!(error, Error::NotAProbability { id: 1, .. }), "{error}");
    }
    assert!(matches!(DenseWeights::new(vec![0.5, 0.4]), Err(Error::NotNormalised { .. })));
    assert_eq!(DenseWeights::new(vec![]), Err(Error::Empty));
}

#[test]
fn totals_do_not_overflow() {
    let weights = SparseWeights::new(vec![0, 1, 2], vec![u32::MAX; 3]).unwrap();
    assert_eq!(weights.total(), 3 * u64::from(u32::MAX));
    assert_eq!(weights.draw(u64::MAX), 2);
}

#[test]
fn a_proposal_needs_one_distribution_per_token() {
    let error = Proposal::new(vec![1, 2], vec![DraftDistribution::Point(1)], 10).unwrap_err();
    assert_eq!(error, Error::UnequalProposal { n_tokens: 2, n_distributions: 1 });
    assert!(Proposal::new(vec![], vec![], 10).unwrap().is_empty());
}

/// Ids that the target does not have are refused, whether drawn or only claimed.
#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let proposals = [
        (9, DraftDistribution::Point(9)),
        (1, sparse(&[1, 9], &[5, 1])),
        (u32::MAX, DraftDistribution::Point(u32::MAX)),
        (1, DraftDistribution::Dense(DenseWeights::new(vec![0.1; 10]).unwrap())),
    ];
    for (token, distribution) in proposals {
        let error = Proposal::new(vec![token], vec![distribution], 6).unwrap_err();
        assert!(matches!(error, Error::OutsideVocabulary { index: 0, n_vocab: 6, .. }), "{error}");
    }
    // A draft that knows fewer ids is welcome.
    assert!(Proposal::new(vec![3], vec![sparse(&[1, 3], &[1, 1])], 6).is_ok());
}

/// Q(x) = 0 for a proposed x is a malformed claim, not a ratio of infinity.
#[test]
fn a_token_outside_its_own_support_is_refused() {
    let claims = [
        sparse(&[0, 1], &[1, 1]),
        DraftDistribution::Point(0),
        DraftDistribution::Dense(DenseWeights::new(vec![0.5, 0.5, 0.0, 0.0]).unwrap()),
        DraftDistribution::Dense(DenseWeights::new(vec![0.5, 0.5]).unwrap()),
    ];
    for claim in claims {
        assert_eq!(Proposal::new(vec![2], vec![claim], 4), Err(Error::OutsideSupport { index: 0, id: 2 }));
    }
}

#[test]
fn probabilities_are_weights_over_totals() {
    let distribution = sparse(&[3, 70, 71, 200], &[1, 2, 3, 4]);
    assert_eq!(distribution.probability(70), 0.2);
    assert_eq!(distribution.probability(4), 0.0);
    assert_eq!(distribution.probability(1000), 0.0);
    assert_eq!([0, 1, 2, 3, 4].map(|block| distribution.block_total(block)), [1.0, 5.0, 0.0, 4.0, 0.0]);

    let point = DraftDistribution::Point(70);
    assert_eq!((point.probability(70), point.probability(0)), (1.0, 0.0));
    assert_eq!([0, 1, 2].map(|block| point.block_total(block)), [0.0, 1.0, 0.0]);
}

prop_compose! {
    fn any_sparse()(pairs in prop::collection::btree_map(0_u32..500, 1_u32..1000, 1..40)) -> SparseWeights {
        let (ids, weights) = pairs.into_iter().unzip();
        SparseWeights::new(ids, weights).unwrap()
    }
}

proptest! {
    #[test]
    fn draws_lie_in_the_support(weights in any_sparse(), bits: u64) {
        prop_assert!(weights.ids().contains(&weights.draw(bits)));
    }

    /// The 2^64 patterns are shared out in runs, in ascending order of ids; where each run ends is known exactly.
    #[test]
    fn each_id_gets_its_share_of_the_bit_patterns(weights in any_sparse()) {
        let mut below = 0_u128;
        for (id, weight) in weights.ids().iter().zip(weights.weights()) {
            let first = (below << 64).div_ceil(u128::from(weights.total()));
            below += u128::from(*weight);
            let end = (below << 64).div_ceil(u128::from(weights.total()));
            prop_assert_eq!(weights.draw(first as u64), *id);
            prop_assert_eq!(weights.draw((end - 1) as u64), *id);
        }
        prop_assert_eq!(below, u128::from(weights.total()));
    }

    #[test]
    fn block_totals_add_up(weights in any_sparse()) {
        let distribution = DraftDistribution::Sparse(weights);
        let blocks = 0..distribution.width().div_ceil(BLOCK);
        prop_assert_eq!(blocks.map(|block| distribution.block_total(block)).sum::<f64>(), distribution.total());
    }
}

//! Whatever arrives, the answer is a value or an error; what we send, the peer reads back unchanged.

use std::{num::NonZeroU32, time::Duration};

use proptest::prelude::*;
use prost::Message;
use specfleet_grammar::Form;
use specfleet_speculation::{
    distribution::{DenseWeights, DraftDistribution, Proposal, SparseWeights},
    propose::Rule,
    random::DraftSeed,
    transform::SamplingParams,
};

use crate::{
    convert::{DistributionForm, DraftSettings, ProposalBounds, RoundProposal, Timings, sampling_params},
    v1::{self, draft_token::Distribution},
};

const N_VOCAB: usize = 40;

/// A token with a distribution that has it in its support.
fn good_token() -> impl Strategy<Value = (u32, DraftDistribution)> {
    let ids = prop::collection::btree_map(0..N_VOCAB as u32, 1..=u32::MAX, 1..N_VOCAB);
    let sparse = (ids, any::<prop::sample::Index>()).prop_map(|(map, index)| {
        let (ids, weights): (Vec<_>, Vec<_>) = map.into_iter().unzip();
        let token = *index.get(&ids);
        let weights = SparseWeights::new(ids, weights).unwrap();
        (token, DraftDistribution::Sparse(weights))
    });
    let dense = prop::collection::vec(1_u32..1000, N_VOCAB).prop_map(|weights| {
        let total = f64::from(weights.iter().sum::<u32>());
        let values = weights.iter().map(|&w| (f64::from(w) / total) as f32);
        let weights = DenseWeights::new(values.collect()).unwrap();
        (weights.values().len() as u32 / 2, DraftDistribution::Dense(weights))
    });
    let point = (0..N_VOCAB as u32).prop_map(|token| (token, DraftDistribution::Point(token)));
    prop_oneof![sparse, dense, point]
}

/// Anything that has the shape of a proposal, most of it wrong.
fn any_wire_proposal() -> impl Strategy<Value = v1::Proposal> {
    let numbers = || prop::collection::vec(prop_oneof![3 => 0_u32..4, 1 => any::<u32>()], 0..N_VOCAB + 3);
    let sparse = (numbers(), numbers(), any::<Option<u64>>()).prop_map(|(id_deltas, weights, total)| {
        let sum = weights.iter().map(|&w| u64::from(w)).sum();
        Distribution::Sparse(v1::SparseDistribution { id_deltas, weights, total: total.unwrap_or(sum) })
    });
    let dense = prop::collection::vec(any::<u8>(), 0..4 * N_VOCAB + 2)
        .prop_map(|probabilities| Distribution::Dense(v1::DenseDistribution { probabilities }));
    let point = Just(Distribution::Point(v1::PointDistribution {}));
    let token = (0..N_VOCAB as u32 + 2, prop::option::of(prop_oneof![sparse, dense, point]))
        .prop_map(|(token_id, distribution)| v1::DraftToken { token_id, distribution });
    prop::collection::vec(token, 0..4).prop_map(|tokens| v1::Proposal { tokens, ..Default::default() })
}

fn sampling() -> impl Strategy<Value = SamplingParams> {
    let floats = prop::array::uniform6(-1e6_f32..1e6);
    let bias = prop::collection::vec((any::<u32>(), -1e6_f32..1e6), 0..5);
    let end = prop::collection::vec(any::<u32>(), 0..5);
    (floats, any::<[u32; 2]>(), bias, end).prop_map(|(f, n, logit_bias, end_tokens)| SamplingParams {
        temperature: f[0],
        top_p: f[1],
        top_k: n[0],
        min_p: f[2],
        repetition_penalty: f[3],
        presence_penalty: f[4],
        frequency_penalty: f[5],
        logit_bias,
        min_tokens: n[1],
        end_tokens,
    })
}

proptest! {
    #[test]
    fn what_is_sent_is_read_back(
        tokens in prop::collection::vec(good_token(), 0..5),
        round: u64, base_length: u32, base_digest: u64, queue: u32, compute: u32,
    ) {
        let (tokens, distributions): (Vec<_>, Vec<_>) = tokens.into_iter().unzip();
        let sent = RoundProposal {
            round,
            base_length,
            base_digest,
            version_id: "v".repeat(64),
            proposal: Proposal::new(tokens, distributions, N_VOCAB).unwrap(),
            timings: Timings {
                queue: Duration::from_micros(queue.into()),
                compute: Duration::from_micros(compute.into()),
            },
        };
        let bytes = v1::Proposal::from(&sent).encode_to_vec();
        let wire = v1::Proposal::decode(bytes.as_slice()).unwrap();
        let bounds = ProposalBounds { n_vocab: N_VOCAB, draft_length: 4 };
        let read = RoundProposal::from_wire(wire, bounds).unwrap();
        prop_assert_eq!((read.round, read.base_length, read.base_digest), (round, base_length, base_digest));
        prop_assert_eq!(read.version_id, sent.version_id);
        prop_assert_eq!(read.timings, sent.timings);
        prop_assert_eq!(read.proposal, sent.proposal);
    }

    /// What passes is safe to use: in range, and the token possible under its own distribution.
    #[test]
    fn anything_is_refused_or_sound(wire in any_wire_proposal()) {
        let bounds = ProposalBounds { n_vocab: N_VOCAB, draft_length: 3 };
        if let Ok(read) = RoundProposal::from_wire(wire, bounds) {
            for (&token, distribution) in read.proposal.tokens().iter().zip(read.proposal.distributions()) {
                prop_assert!((token as usize) < N_VOCAB);
                prop_assert!(distribution.probability(token) > 0.0);
                let mass: f64 = (0..N_VOCAB as u32).map(|id| distribution.probability(id)).sum();
                prop_assert!((mass - 1.0).abs() < 1e-6, "mass {}", mass);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), n_vocab in 0_usize..300) {
        let bounds = ProposalBounds { n_vocab, draft_length: 8 };
        if let Ok(wire) = v1::Proposal::decode(bytes.as_slice()) {
            let _ = RoundProposal::from_wire(wire, bounds);
        }
        if let Ok(wire) = v1::DraftSettings::decode(bytes.as_slice()) {
            let _ = DraftSettings::try_from(wire);
        }
    }

    #[test]
    fn settings_are_read_back(sampling in sampling(), seed: [u8; 32], invariant: bool, dense: bool, n_vocab: u32,
                             grammar in 0_usize..4) {
        let sent = DraftSettings {
            sampling,
            draft_seed: DraftSeed(seed),
            rule: if invariant { Rule::DraftInvariant } else { Rule::Standard },
            form: if dense { DistributionForm::Dense } else { DistributionForm::Sparse },
            n_vocab: NonZeroU32::new(n_vocab),
            grammar: [None, Some(Form::JsonSchema("{}".into())), Some(Form::Regex("a".into())), Some(Form::Lark("start: \"a\"".into()))]
                [grammar].clone(),
        };
        let bytes = v1::DraftSettings::from(&sent).encode_to_vec();
        let read: DraftSettings = v1::DraftSettings::decode(bytes.as_slice()).unwrap().try_into().unwrap();
        prop_assert_eq!(read.sampling, sent.sampling);
        prop_assert_eq!(read.draft_seed.0, seed);
        prop_assert_eq!((read.rule, read.form, read.n_vocab), (sent.rule, sent.form, sent.n_vocab));
        prop_assert_eq!(read.grammar, sent.grammar);
    }

    #[test]
    fn absent_numbers_come_from_the_defaults(defaults in sampling()) {
        let read = sampling_params(v1::SamplingParams::default(), &defaults);
        let expected = SamplingParams {
            logit_bias: vec![],
            min_tokens: 0,
            end_tokens: vec![],
            ..defaults
        };
        prop_assert_eq!(read, expected);
    }
}

//! One broken rule a row: what a peer may get wrong, and the field that the answer names.

use specfleet_grammar::{Form, MAX_FORM_BYTES};
use specfleet_speculation::{distribution::DraftDistribution, transform::SamplingParams};
use tonic::{Code, Status};

use crate::{
    convert::{DraftSettings, ProposalBounds, RoundProposal, check_token_ids},
    v1::{self, draft_token::Distribution},
};

const BOUNDS: ProposalBounds = ProposalBounds { n_vocab: 10, draft_length: 2 };

fn sparse(id_deltas: &[u32], weights: &[u32], total: u64) -> Distribution {
    Distribution::Sparse(v1::SparseDistribution { id_deltas: id_deltas.to_vec(), weights: weights.to_vec(), total })
}

fn dense(values: &[f32]) -> Distribution {
    Distribution::Dense(v1::DenseDistribution { probabilities: values.iter().flat_map(|v| v.to_le_bytes()).collect() })
}

fn proposal(tokens: Vec<(u32, Option<Distribution>)>) -> v1::Proposal {
    v1::Proposal {
        tokens: tokens.into_iter().map(|(token_id, distribution)| v1::DraftToken { token_id, distribution }).collect(),
        ..Default::default()
    }
}

/// The field named in the refusal; panics when there is none.
fn refused(token: u32, distribution: Distribution) -> &'static str {
    let wire = proposal(vec![(token, Some(distribution))]);
    RoundProposal::from_wire(wire, BOUNDS).unwrap_err().field()
}

#[test]
fn a_good_proposal_of_each_form_passes() {
    let mut uniform = [0.1; 10];
    uniform[0] = 0.2;
    uniform[1] = 0.0;
    for (token, distribution) in [
        (9, Distribution::Point(v1::PointDistribution {})),
        (3, sparse(&[1, 2, 6], &[5, u32::MAX, 1], 5 + u64::from(u32::MAX) + 1)),
        (0, sparse(&[0], &[1], 1)),
        (0, dense(&uniform)),
        // A draft that knows fewer ids than the target.
        (0, dense(&[0.25; 4])),
    ] {
        let wire = proposal(vec![(token, Some(distribution))]);
        let read = RoundProposal::from_wire(wire.clone(), BOUNDS).unwrap();
        assert_eq!(read.proposal.tokens(), [token]);
        assert_eq!(v1::Proposal::from(&read).tokens, wire.tokens);
    }
    assert!(RoundProposal::from_wire(proposal(vec![]), BOUNDS).unwrap().proposal.is_empty());
}

#[test]
fn sparse_ids_are_the_running_sums() {
    let wire = proposal(vec![(3, Some(sparse(&[1, 2, 6], &[5, 3, 2], 10)))]);
    let read = RoundProposal::from_wire(wire, BOUNDS).unwrap();
    let DraftDistribution::Sparse(weights) = &read.proposal.distributions()[0] else {
        panic!("not sparse");
    };
    assert_eq!(weights.ids(), [1, 3, 9]);
    assert_eq!(read.proposal.distributions()[0].probability(3), 0.3);
}

#[test]
fn sparse_rules() {
    let cases = [
        ("more ids than the vocabulary", 0, sparse(&[1; 11], &[1; 11], 11), "tokens.sparse.id_deltas"),
        ("fewer weights than ids", 1, sparse(&[1, 1], &[1], 1), "tokens.sparse.weights"),
        ("more weights than ids", 1, sparse(&[1], &[1, 1], 2), "tokens.sparse.weights"),
        ("sum above the total", 1, sparse(&[1, 1], &[2, 2], 3), "tokens.sparse.total"),
        ("sum wraps in 32 bits", 1, sparse(&[1, 1], &[u32::MAX, 2], 1), "tokens.sparse.total"),
        ("deltas leave 32 bits", 1, sparse(&[1, u32::MAX], &[1, 1], 2), "tokens.sparse.id_deltas"),
        ("the same id twice", 1, sparse(&[1, 0], &[1, 1], 2), "tokens"),
        ("a zero weight", 1, sparse(&[1, 1], &[1, 0], 1), "tokens"),
        ("no id", 1, sparse(&[], &[], 0), "tokens"),
        ("an id beyond the vocabulary", 1, sparse(&[1, 9], &[1, 1], 2), "tokens"),
        ("token outside the support", 4, sparse(&[1, 2], &[1, 1], 2), "tokens"),
    ];
    for (rule, token, distribution, field) in cases {
        assert_eq!(refused(token, distribution), field, "{rule}");
    }
}

#[test]
fn dense_rules() {
    let mut nan = [0.1; 10];
    nan[3] = f32::NAN;
    let mut negative = [0.1; 10];
    negative[3] = -0.1;
    negative[4] = 0.3;
    let mut zero_at_token = [0.1; 10];
    zero_at_token[0] = 0.0;
    zero_at_token[1] = 0.2;
    let cases = [
        ("one value more", dense(&[0.1; 11]), "tokens.dense.probabilities"),
        ("nothing", dense(&[]), "tokens"),
        ("not a number", dense(&nan), "tokens"),
        ("below zero", dense(&negative), "tokens"),
        ("sums to two", dense(&[0.2; 10]), "tokens"),
        ("token has no probability", dense(&zero_at_token), "tokens"),
    ];
    for (rule, distribution, field) in cases {
        assert_eq!(refused(0, distribution), field, "{rule}");
    }
    let ragged = Distribution::Dense(v1::DenseDistribution { probabilities: vec![0; 41] });
    assert_eq!(refused(0, ragged), "tokens.dense.probabilities");
}

#[test]
fn token_rules() {
    let point = || Some(Distribution::Point(v1::PointDistribution {}));
    let cases = [
        ("id beyond the vocabulary", vec![(10, point())], "tokens"),
        ("no distribution", vec![(1, None)], "tokens.distribution"),
        ("longer than asked", vec![(1, point()), (1, point()), (1, point())], "tokens"),
    ];
    for (rule, tokens, field) in cases {
        let error = RoundProposal::from_wire(proposal(tokens), BOUNDS).unwrap_err();
        assert_eq!(error.field(), field, "{rule}");
        let status = Status::from(error);
        assert_eq!(status.code(), Code::InvalidArgument, "{rule}");
    }
}

#[test]
fn settings_must_be_complete() {
    let good = v1::DraftSettings {
        sampling: None,
        draft_seed: vec![7; 32],
        rule: v1::AcceptanceRule::Standard.into(),
        form: v1::DistributionForm::Sparse.into(),
        vocabulary_size: 0,
        grammar: None,
    };
    let read = DraftSettings::try_from(good.clone()).unwrap();
    assert_eq!(read.sampling, SamplingParams::default());

    type Change = fn(&mut v1::DraftSettings);
    let cases: [(Change, &str); 7] = [
        (|s| s.draft_seed.truncate(31), "settings.draft_seed"),
        (|s| s.rule = 0, "settings.rule"),
        (|s| s.rule = 99, "settings.rule"),
        (|s| s.form = 0, "settings.form"),
        (|s| s.form = -1, "settings.form"),
        (|s| s.grammar = Some(v1::OutputGrammar::default()), "settings.grammar"),
        (|s| s.grammar = Some((&Form::Regex("a".repeat(MAX_FORM_BYTES + 1))).into()), "settings.grammar"),
    ];
    for (change, field) in cases {
        let mut wire = good.clone();
        change(&mut wire);
        assert_eq!(DraftSettings::try_from(wire).unwrap_err().field(), field);
    }
}

#[test]
fn token_ids_are_named_with_their_place() {
    assert!(check_token_ids("committed", &[0, 9], 10).is_ok());
    let text = check_token_ids("committed", &[0, 10, 11], 10).unwrap_err().to_string();
    assert_eq!(text, "committed[1] is 10, must be below the vocabulary's 10");
}

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

fn identity() -> Identity {
    Identity {
        version_id: "0123456789abcdef".repeat(4),
        label: "a model".into(),
        vocabulary: VocabularyFingerprint {
            fingerprint: "f".repeat(64),
            size: 3,
            token_digests: vec![1, u32::MAX, 0],
            end_tokens: vec![0, 2],
            begin_token: Some(1),
        },
        context_length: 8192,
        incarnation: "b1".into(),
        protocol_number: 1,
        transform_spec: 2,
        architecture: "llama".into(),
        dtype: "bf16".into(),
        device: "cpu".into(),
        step_weight_bytes: 270_000_000,
        compute_threads: 2,
    }
}

#[test]
fn what_is_sent_is_read_back() {
    let sent = identity();
    assert_eq!(from_wire(to_wire(&sent, true)).unwrap(), sent);

    let mut without_digests = sent.clone();
    without_digests.vocabulary.token_digests.clear();
    assert_eq!(from_wire(to_wire(&sent, false)).unwrap(), without_digests);
}

#[test]
fn a_drafter_without_a_vocabulary_passes() {
    let lookup = Identity::of_lookup("prompt lookup", "n-gram 3", 8192);
    assert_eq!(from_wire(to_wire(&lookup, true)).unwrap(), lookup);
}

#[test]
fn what_is_no_identity_is_refused() {
    type Change = fn(&mut v1::Identity, &mut v1::Vocabulary);
    let cases: [(Change, Error); 8] = [
        (|i, _| i.version_id.clear(), Error::NotAHash { field: "version_id", value: String::new() }),
        (|i, _| i.version_id = "A".repeat(64), Error::NotAHash { field: "version_id", value: "A".repeat(64) }),
        (
            |_, v| v.fingerprint = "é".repeat(100),
            Error::NotAHash { field: "vocabulary.fingerprint", value: "é".repeat(64) },
        ),
        (|i, _| i.device = "x".repeat(1025), Error::TooLong { field: "device", length: 1025 }),
        (|_, v| v.token_digests.push(0), Error::TokenDigests { length: 13, size: 3 }),
        (|_, v| v.size = u32::MAX, Error::TokenDigests { length: 12, size: u32::MAX }),
        (|_, v| v.end_token_ids = vec![2, 2], Error::EndTokens),
        (|_, v| v.end_token_ids = (0..257).collect(), Error::TooManyEndTokens(257)),
    ];
    for (change, expected) in cases {
        let mut wire = to_wire(&identity(), true);
        let mut vocabulary = wire.vocabulary.take().unwrap();
        change(&mut wire, &mut vocabulary);
        wire.vocabulary = Some(vocabulary);
        assert_eq!(from_wire(wire).unwrap_err(), expected);
    }
    let missing = v1::Identity { vocabulary: None, ..to_wire(&identity(), false) };
    assert_eq!(from_wire(missing).unwrap_err(), Error::Missing { field: "vocabulary" });
}

proptest! {
    /// Whatever a peer says it is, what passes has the form that everybody behind relies on, and goes out as it came in.
    #[test]
    fn what_passes_is_an_identity(
        version_id in prop_oneof!["[0-9a-f]{64}", "[0-9a-fA-G]{63,65}"],
        fingerprint in prop_oneof![4 => "[0-9a-f]{64}", 1 => ".{0,70}"],
        label in ".{0,40}",
        size in prop_oneof![Just(2_u32), 0_u32..6],
        token_digests in prop_oneof![Just(vec![]), prop::collection::vec(any::<u8>(), 8), prop::collection::vec(any::<u8>(), 0..24)],
        end_token_ids in prop::collection::vec(0_u32..9, 0..4),
        begin_token_id: Option<u32>,
        numbers: [u32; 4],
        step_weight_bytes: u64,
    ) {
        let vocabulary = v1::Vocabulary { fingerprint, size, token_digests, end_token_ids, begin_token_id };
        let wire = v1::Identity {
            version_id,
            label,
            vocabulary: Some(vocabulary),
            context_length: numbers[0],
            protocol_number: numbers[1],
            transform_spec: numbers[2],
            compute_threads: numbers[3],
            step_weight_bytes,
            ..Default::default()
        };
        if let Ok(identity) = from_wire(wire.clone()) {
            prop_assert_eq!(identity.version_id.len(), 64);
            let vocabulary = &identity.vocabulary;
            let n_digests = vocabulary.token_digests.len();
            prop_assert!(n_digests == 0 || n_digests == vocabulary.size as usize);
            prop_assert!(vocabulary.end_tokens.is_sorted_by(|before, after| before < after));
            prop_assert_eq!(to_wire(&identity, true), wire);
        }
    }
}

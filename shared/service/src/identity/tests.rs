#![allow(clippy::unwrap_used)]
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
    let cases: [(Change, Error); 7] = [
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

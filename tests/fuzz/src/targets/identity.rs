//! What a peer says it is, and whether its vocabulary fits.

use prost::Message;
use specfleet_model::identity::{Identity, VocabularyFingerprint, check_compatible};
use specfleet_protocol::v1;
use specfleet_service::identity::{from_wire, to_wire};

use super::scripted;
use crate::{Allowance, Answer, Decode, Target};

/// Every id that ends a text, or an unknown field, is a few bytes on the wire and a few more here.
pub(super) const TARGET: Target =
    Target { name: "identity", allowance: Allowance { fixed: 16 << 10, per_byte: 64 }, seeds, start };

fn start() -> Decode {
    let target = VocabularyFingerprint::new(&scripted::tokenizer(), scripted::N_VOCAB);
    Box::new(move |bytes| {
        let Ok(wire) = v1::Identity::decode(bytes) else { return Answer::Refused };
        let read = from_wire(wire.clone());
        if let Ok(identity) = &read {
            check(identity);
            assert_eq!(to_wire(identity, true), wire);
            if let Err(error) = check_compatible(&target, &identity.vocabulary) {
                let length = error.to_string().len();
                assert!(length < 8 << 10, "a refusal of {length} bytes fits no status");
            }
        }
        Answer::of(&read)
    })
}

fn check(identity: &Identity) {
    assert_eq!(identity.version_id.len(), 64);
    let vocabulary = &identity.vocabulary;
    assert_eq!(vocabulary.fingerprint.len(), 64);
    assert!(vocabulary.token_digests.is_empty() || vocabulary.token_digests.len() == vocabulary.size as usize);
    assert!(vocabulary.end_tokens.is_sorted_by(|before, after| before < after));
}

fn seeds() -> Vec<Vec<u8>> {
    let tokenizer = scripted::tokenizer();
    let mut model = Identity::of_lookup("a model", "a policy", 4096);
    model.vocabulary = VocabularyFingerprint::new(&tokenizer, scripted::N_VOCAB);
    model.dtype = "bf16".to_owned();
    let mut other = model.clone();
    other.vocabulary.fingerprint = "0".repeat(64);
    other.vocabulary.token_digests[3] ^= 1;
    other.vocabulary.begin_token = Some(3);
    let lookup = Identity::of_lookup("prompt lookup", "n-grams", 1 << 20);
    let mut seeds = [model, other, lookup];
    for identity in &mut seeds {
        // Random for each start of a process, which the seeds must not be.
        identity.incarnation = "0123456789abcdef".repeat(2);
    }
    seeds.iter().map(|identity| to_wire(identity, true).encode_to_vec()).collect()
}

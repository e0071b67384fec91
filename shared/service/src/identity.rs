//! Who serves, on its way over the wire. The comparison of vocabularies and the hash behind a version id live in
//! `specfleet-model`; here a peer's claim becomes its types, or is refused.

use specfleet_model::identity::{Identity, VocabularyFingerprint};
use specfleet_protocol::v1;

/// Length of a SHA-256 in hexadecimal.
const HASH_DIGITS: usize = 64;
/// Texts of an identity go into logs and tables; nobody needs longer ones.
const MAX_TEXT_BYTES: usize = 1024;
const DIGEST_BYTES: usize = 4;
/// Published models have up to five.
const MAX_END_TOKENS: usize = 256;

/// What is wrong with an identity that a peer sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A part that must be there is not.
    #[error("the peer's identity has no {field}")]
    Missing {
        /// Name of the part.
        field: &'static str,
    },
    /// A hash is not 64 lower-case hexadecimal digits.
    #[error("{field} of the peer's identity is {value:?}, must be {HASH_DIGITS} lower-case hexadecimal digits")]
    NotAHash {
        /// Name of the field.
        field: &'static str,
        /// As sent, cut to what is readable.
        value: String,
    },
    /// A text is too long to be shown anywhere.
    #[error("{field} of the peer's identity has {length} bytes, must have at most {MAX_TEXT_BYTES}")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// As sent.
        length: usize,
    },
    /// There must be 4 bytes for each id of the vocabulary, or none.
    #[error("the peer's token digests have {length} bytes, must have 4 for each of {size} ids, or none")]
    TokenDigests {
        /// Bytes sent.
        length: usize,
        /// Ids in the peer's vocabulary.
        size: u32,
    },
    /// More ids that end a generation than anybody has, and each of them would go into every message about the peer.
    #[error("the peer has {0} end token ids, must have at most {MAX_END_TOKENS}")]
    TooManyEndTokens(usize),
    /// Ids that end a generation must ascend.
    #[error("the peer's end token ids do not ascend")]
    EndTokens,
}

/// The identity as it is sent. Token digests are some hundred kilobytes: only for peers that ask.
pub fn to_wire(identity: &Identity, include_token_digests: bool) -> v1::Identity {
    let vocabulary = &identity.vocabulary;
    let token_digests = match include_token_digests {
        true => vocabulary.token_digests.iter().flat_map(|digest| digest.to_le_bytes()).collect(),
        false => Vec::new(),
    };
    v1::Identity {
        version_id: identity.version_id.clone(),
        label: identity.label.clone(),
        vocabulary: Some(v1::Vocabulary {
            fingerprint: vocabulary.fingerprint.clone(),
            size: vocabulary.size,
            token_digests,
            end_token_ids: vocabulary.end_tokens.clone(),
            begin_token_id: vocabulary.begin_token,
        }),
        context_length: identity.context_length,
        incarnation: identity.incarnation.clone(),
        protocol_number: identity.protocol_number,
        transform_spec: identity.transform_spec,
        architecture: identity.architecture.clone(),
        dtype: identity.dtype.clone(),
        device: identity.device.clone(),
        step_weight_bytes: identity.step_weight_bytes,
        compute_threads: identity.compute_threads,
    }
}

/// Reads what a peer says it is. Whether it fits is decided elsewhere.
///
/// # Errors
/// [`enum@Error`], when it is no identity at all.
pub fn from_wire(wire: v1::Identity) -> Result<Identity, Error> {
    check_hash("version_id", &wire.version_id)?;
    for (field, text) in [
        ("label", &wire.label),
        ("incarnation", &wire.incarnation),
        ("architecture", &wire.architecture),
        ("dtype", &wire.dtype),
        ("device", &wire.device),
    ] {
        if text.len() > MAX_TEXT_BYTES {
            return Err(Error::TooLong { field, length: text.len() });
        }
    }
    let vocabulary = wire.vocabulary.ok_or(Error::Missing { field: "vocabulary" })?;
    Ok(Identity {
        version_id: wire.version_id,
        label: wire.label,
        vocabulary: vocabulary_from_wire(vocabulary)?,
        context_length: wire.context_length,
        incarnation: wire.incarnation,
        protocol_number: wire.protocol_number,
        transform_spec: wire.transform_spec,
        architecture: wire.architecture,
        dtype: wire.dtype,
        device: wire.device,
        step_weight_bytes: wire.step_weight_bytes,
        compute_threads: wire.compute_threads,
    })
}

fn vocabulary_from_wire(wire: v1::Vocabulary) -> Result<VocabularyFingerprint, Error> {
    check_hash("vocabulary.fingerprint", &wire.fingerprint)?;
    let (digests, rest) = wire.token_digests.as_chunks::<DIGEST_BYTES>();
    let complete = digests.len() == wire.size as usize && rest.is_empty();
    if !(complete || wire.token_digests.is_empty()) {
        return Err(Error::TokenDigests { length: wire.token_digests.len(), size: wire.size });
    }
    if wire.end_token_ids.len() > MAX_END_TOKENS {
        return Err(Error::TooManyEndTokens(wire.end_token_ids.len()));
    }
    if !wire.end_token_ids.is_sorted_by(|before, after| before < after) {
        return Err(Error::EndTokens);
    }
    Ok(VocabularyFingerprint {
        fingerprint: wire.fingerprint,
        size: wire.size,
        token_digests: digests.iter().copied().map(u32::from_le_bytes).collect(),
        end_tokens: wire.end_token_ids,
        begin_token: wire.begin_token_id,
    })
}

fn check_hash(field: &'static str, value: &str) -> Result<(), Error> {
    let is_hash = value.len() == HASH_DIGITS && value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match is_hash {
        true => Ok(()),
        false => Err(Error::NotAHash { field, value: value.chars().take(HASH_DIGITS).collect() }),
    }
}

#[cfg(test)]
mod tests;

//! What makes two model processes interchangeable.
//!
//! Names prove nothing: two files of one name with different bytes are two models, and a draft whose tokenizer differs
//! in one token poisons every proposal. So an [`Identity`] is made of content. Its version id is a hash over everything
//! that decides which distributions a process gives: weights and configuration as loaded, the vocabulary, the transform
//! spec, the proposal policy and the protocol. Equal version ids mean: either process may serve the request.
//!
//! Vocabularies are compared apart ([`check_compatible`]), because target and draft may differ in padding, and a draft
//! may know fewer tokens.

mod vocabulary;
mod weights;

use sha2::{Digest, Sha256};
pub use vocabulary::{Incompatible, Side, VocabularyFingerprint, check_compatible};
pub use weights::WeightsHasher;

use crate::batch::ModelDescription;
use crate::tokenizer::Tokenizer;

/// The number of the rules by which logits become distributions.
pub const TRANSFORM_SPEC: u32 = 1;

/// The number of the rules by which draft and verifier talk.
pub const PROTOCOL_NUMBER: u32 = 1;

/// A model process as others see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Hash of everything that decides the distributions; 64 hexadecimal digits. Compared exactly.
    pub version_id: String,
    /// For people. Never compared.
    pub label: String,
    /// The vocabulary in digests.
    pub vocabulary: VocabularyFingerprint,
    /// Positions the model can hold, prompt and output together.
    pub context_length: u32,
    /// A random id for each process start.
    pub incarnation: String,
    /// See [`PROTOCOL_NUMBER`].
    pub protocol_number: u32,
    /// See [`TRANSFORM_SPEC`].
    pub transform_spec: u32,
    /// "llama", "qwen2", "qwen3", "prompt-lookup", ...
    pub architecture: String,
    /// "bf16", "int8" or "f32"; empty where there are no weights.
    pub dtype: String,
    /// Where it runs.
    pub device: String,
    /// Bytes of weights that one decoding step of one row reads.
    pub step_weight_bytes: u64,
    /// Threads that compute.
    pub compute_threads: u32,
}

impl Identity {
    /// Of a loaded model. `policy` says in words how it turns a distribution into a proposal (support size, weights);
    /// empty for a target.
    pub fn of_model(description: &ModelDescription, tokenizer: &Tokenizer, label: &str, policy: &str) -> Self {
        let vocabulary = VocabularyFingerprint::new(tokenizer, description.vocab_size);
        Self {
            version_id: version_id(&description.weights_digest, &vocabulary, policy),
            label: label.to_owned(),
            vocabulary,
            context_length: saturate(description.context_length),
            incarnation: new_incarnation(),
            protocol_number: PROTOCOL_NUMBER,
            transform_spec: TRANSFORM_SPEC,
            architecture: description.architecture.clone(),
            dtype: description.dtype.clone(),
            device: description.device.clone(),
            step_weight_bytes: description.step_weight_bytes,
            compute_threads: saturate(description.threads),
        }
    }

    /// Of a drafter without a model, which copies tokens out of the prefix and so knows no vocabulary.
    pub fn of_lookup(label: &str, policy: &str, context_length: u32) -> Self {
        let vocabulary = VocabularyFingerprint::none();
        Self {
            version_id: version_id(&[0; 32], &vocabulary, policy),
            label: label.to_owned(),
            vocabulary,
            context_length,
            incarnation: new_incarnation(),
            protocol_number: PROTOCOL_NUMBER,
            transform_spec: TRANSFORM_SPEC,
            architecture: "prompt-lookup".to_owned(),
            dtype: String::new(),
            device: "cpu".to_owned(),
            step_weight_bytes: 0,
            compute_threads: 1,
        }
    }
}

/// The weights' digest covers the configuration (see [`WeightsHasher`]).
fn version_id(weights_digest: &[u8; 32], vocabulary: &VocabularyFingerprint, policy: &str) -> String {
    let mut hasher = Sha256::new();
    hasher.update(b"specfleet version 1\0");
    hasher.update(weights_digest);
    hasher.update(vocabulary.fingerprint.as_bytes());
    hasher.update(vocabulary.size.to_le_bytes());
    hasher.update(TRANSFORM_SPEC.to_le_bytes());
    hasher.update(PROTOCOL_NUMBER.to_le_bytes());
    hasher.update((policy.len() as u64).to_le_bytes());
    hasher.update(policy.as_bytes());
    hex(&hasher.finalize())
}

fn new_incarnation() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

fn saturate(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;

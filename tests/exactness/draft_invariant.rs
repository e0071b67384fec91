//! A seed gives the same text whatever drafts for it.
//!
//! Under the standard rule a seed fixes the text only together with the draft, its version and the draft length: each
//! changes which random number decides what. A request with a seed therefore gets the draft-invariant rule by default,
//! under which the text is a function of the seed, the request and the target. A draft may be another version, die in
//! the middle, or never be there; others may share the batch or not; the verifier may be another process.
//!
//! - [`any_draft`]: any draft, any draft length, a fail-over in the middle.
//! - [`seeds`]: seeds belong to requests, not to rows of a batch, and outlive the process.
//! - [`rules`]: the rule can be chosen, and what the other one promises.
//! - [`real`]: the same with the real models.
//!
//! That the law of the text is the target's is shown by `sampling`.

mod any_draft;
mod real;
mod rules;
mod seeds;

use specfleet_client::v1::{GenerateRequest, SamplingParams};
use specfleet_model::scripted::ScriptedModel;
use specfleet_speculation::TokenId;
use specfleet_tests::scripted_pair::{self, N_VOCAB};

/// Ten ids that are all likely, depending on the two tokens before.
fn lively() -> ScriptedModel {
    taste(1, 6.0)
}

/// A model with likings that `salt` decides, and that are stronger the smaller `indifference` is.
fn taste(salt: u32, indifference: f32) -> ScriptedModel {
    let script = move |prefix: &[TokenId]| {
        let recent = &prefix[prefix.len().saturating_sub(2)..];
        let context = recent.iter().fold(salt, |hash, token| (hash ^ token).wrapping_mul(0x9E37_79B1).rotate_left(13));
        let logit = |id: u32| match id {
            0..10 => ((context ^ id).wrapping_mul(0x85EB_CA6B) >> 28) as f32 / indifference,
            _ => f32::NEG_INFINITY,
        };
        (0..N_VOCAB as u32).map(logit).collect()
    };
    let digest = *blake3::hash(format!("taste {salt} {indifference}").as_bytes()).as_bytes();
    ScriptedModel::from_fn(N_VOCAB, script).with_weights_digest(digest)
}

/// A request at temperature 1.
fn sampled(prompt: &[TokenId], n_tokens: usize, seed: Option<u64>) -> GenerateRequest {
    GenerateRequest { seed, ..scripted_pair::request(prompt, n_tokens as u32) }
}

/// With every transform at once, mild enough to leave a choice.
fn transformed(request: GenerateRequest) -> GenerateRequest {
    let sampling = SamplingParams {
        temperature: Some(0.8),
        top_p: Some(0.95),
        top_k: Some(8),
        min_p: Some(0.02),
        repetition_penalty: Some(1.1),
        presence_penalty: Some(0.2),
        frequency_penalty: Some(0.05),
        ..SamplingParams::default()
    };
    GenerateRequest { sampling: Some(sampling), ..request }
}

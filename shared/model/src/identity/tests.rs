#![allow(clippy::unwrap_used)]

use super::*;
use crate::checkpoint::{Checkpoint, fixture};

fn tokenizer(tokens: [&str; 6], kinds: [i32; 6]) -> Tokenizer {
    use crate::checkpoint::fixture::Entry;
    let builder = fixture::gguf()
        .entry("tokenizer.ggml.tokens", Entry::Texts(&tokens))
        .entry("tokenizer.ggml.token_type", Entry::I32s(&kinds));
    let folder = tempfile::tempdir().unwrap();
    Checkpoint::open(&fixture::write_gguf(folder.path(), &builder)).unwrap().tokenizer().unwrap()
}

const KINDS: [i32; 6] = [3, 3, 1, 1, 1, 1];

fn fingerprint(tokens: [&str; 6], kinds: [i32; 6], size: usize) -> VocabularyFingerprint {
    VocabularyFingerprint::new(&tokenizer(tokens, kinds), size)
}

#[test]
fn padding_rows_do_not_matter() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let padded = fingerprint(fixture::TOKENS, KINDS, 64);
    assert_eq!(target.fingerprint, padded.fingerprint);
    assert_eq!((target.size, padded.size), (6, 64));
    assert_eq!(padded.token_digests.len(), 64, "each row has a digest");
    assert!(padded.token_digests[6..].iter().all(|&digest| digest == 0));
    assert_eq!(check_compatible(&target, &padded), Ok(()));
}

#[test]
fn a_draft_may_know_fewer_ids() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let fewer = fingerprint(["<s>", "</s>", "a", "b", "ab", "[PAD]"], [3, 3, 1, 1, 1, 5], 5);
    assert_ne!(target.fingerprint, fewer.fingerprint);
    assert_eq!(fewer.token_digests.len(), 5);
    assert_eq!(check_compatible(&target, &fewer), Ok(()));
    let hole = fingerprint(["<s>", "[PAD]", "a", "b", "ab", "Ġ"], [3, 5, 1, 1, 1, 1], 6);
    assert_eq!(hole.token_digests[1], 0);
    assert_eq!(check_compatible(&target, &hole), Ok(()));
}

#[test]
fn the_first_difference_is_named_with_both_sides() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let spelled = ["<s>", "</s>", "a", "b", "ab", "Ċ"];
    let draft = fingerprint(spelled, KINDS, 6);
    let error = check_compatible(&target, &draft).unwrap_err();
    assert!(matches!(error, Incompatible::Token { token: 5, .. }));
    let text = error.with_spelling(Side::Target, &tokenizer(fixture::TOKENS, KINDS)).to_string();
    let digest = format!("{:08x}", draft.token_digests[5]);
    assert!(text.contains("token 5: the target spells \" \"") && text.contains(&digest), "{text}");
}

#[test]
fn the_special_flag_is_part_of_a_token() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let draft = fingerprint(fixture::TOKENS, [3, 3, 1, 1, 1, 3], 6);
    assert!(matches!(check_compatible(&target, &draft), Err(Incompatible::Token { token: 5, .. })));
}

#[test]
fn roles_must_agree_where_both_state_them() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let with = |end: &[u32], begin: Option<u32>| VocabularyFingerprint {
        fingerprint: "another".into(),
        end_tokens: end.to_vec(),
        begin_token: begin,
        ..target.clone()
    };
    assert_eq!(check_compatible(&target, &with(&[0, 1], None)), Ok(()), "one end in common is enough");
    assert_eq!(check_compatible(&target, &with(&[], Some(0))), Ok(()));
    let error = check_compatible(&target, &with(&[0], Some(0))).unwrap_err().to_string();
    assert!(error.contains("[1]") && error.contains("[0]") && error.contains("eos_token_id"), "{error}");
    assert!(matches!(check_compatible(&target, &with(&[1], Some(2))), Err(Incompatible::BeginToken { .. })));
}

#[test]
fn without_digests_only_equality_can_be_told() {
    let target = fingerprint(fixture::TOKENS, KINDS, 6);
    let same = VocabularyFingerprint { token_digests: Vec::new(), ..target.clone() };
    assert_eq!(check_compatible(&target, &same), Ok(()));
    let other = VocabularyFingerprint { fingerprint: "another".into(), ..same };
    assert!(matches!(check_compatible(&target, &other), Err(Incompatible::Unexplained { .. })));
    assert_eq!(check_compatible(&target, &VocabularyFingerprint::none()), Ok(()));
}

#[test]
fn the_weights_digest_sees_content_and_not_order() {
    type Tensor<'a> = (&'a str, &'a str, &'a [usize], &'a [u8]);
    let config = fixture::config();
    let digest = |config, tensors: &[Tensor<'_>]| {
        let mut hasher = WeightsHasher::new(config);
        for (name, dtype, shape, bytes) in tensors {
            hasher.add(name, dtype, shape, bytes);
        }
        hasher.finish()
    };
    let a: Tensor<'_> = ("a", "bf16", &[1, 2], &[1, 2, 3, 4]);
    let b: Tensor<'_> = ("b", "bf16", &[1], &[5, 6]);
    let reference = digest(&config, &[a, b]);
    assert_eq!(reference, digest(&config, &[b, a]));
    let other_config = crate::checkpoint::Config { rms_norm_eps: 1e-6, ..config.clone() };
    for other in [
        digest(&config, &[a]),
        digest(&config, &[("a", "bf16", &[2, 1], a.3), b]),
        digest(&config, &[("a", "f32", a.2, a.3), b]),
        digest(&config, &[("c", "bf16", a.2, a.3), b]),
        digest(&config, &[("a", "bf16", a.2, &[1, 2, 3, 5]), b]),
        digest(&other_config, &[a, b]),
    ] {
        assert_ne!(reference, other);
    }
}

#[test]
fn version_ids_follow_content_and_policy() {
    let description = ModelDescription {
        architecture: "llama".into(),
        vocab_size: 6,
        n_rows_of_head: 6,
        draft_vocab: None,
        context_length: 64,
        dtype: "bf16".into(),
        device: "cpu".into(),
        step_weight_bytes: 1,
        threads: 2,
        weights_digest: [7; 32],
    };
    let tokenizer = tokenizer(fixture::TOKENS, KINDS);
    let identity =
        |description: &_, label: &str, policy: &str| Identity::of_model(description, &tokenizer, label, policy);
    let reference = identity(&description, "one", "support 64");
    assert_eq!(reference.version_id.len(), 64);
    let renamed =
        identity(&ModelDescription { threads: 8, device: "cuda:0".into(), ..description.clone() }, "two", "support 64");
    assert_eq!(reference.version_id, renamed.version_id, "where and under which name it runs does not matter");
    assert_ne!(reference.incarnation, renamed.incarnation);
    assert_ne!(reference.version_id, identity(&description, "one", "support 32").version_id);
    let retrained = ModelDescription { weights_digest: [8; 32], ..description.clone() };
    assert_ne!(reference.version_id, identity(&retrained, "one", "support 64").version_id);
    let lookup = Identity::of_lookup("lookup", "ngram 3", 64);
    assert_eq!((lookup.architecture.as_str(), lookup.vocabulary.size), ("prompt-lookup", 0));
    assert_ne!(lookup.version_id, Identity::of_lookup("lookup", "ngram 4", 64).version_id);
}

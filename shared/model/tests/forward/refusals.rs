//! What a model says to a batch, or to options, that it cannot serve.

use specfleet_model::batch::{ForwardError, Segment, WantedLogits};
use specfleet_model::device::Device;
use specfleet_model::load::{Dtype, Error, LoadOptions, Operators, load};

use crate::support::{BOTH_OPERATORS, model, options, path};

#[test]
fn a_refused_batch_changes_nothing_and_the_next_one_is_served() {
    for operators in BOTH_OPERATORS {
        let Some(mut model) = model("llama3", &options(operators, Dtype::Bf16)) else { continue };
        let mut kv = model.kv().start(&[]);
        model.kv().reserve(&mut kv, 8).unwrap();
        let tokens = &[1, 2, 128];
        let error = model.forward(&mut [Segment { kv: &mut kv, tokens, logits: WantedLogits::Last }]).unwrap_err();
        assert!(matches!(error, ForwardError::TokenOutOfRange { token: 128, vocab_size: 128, .. }), "{error}");
        let error = model.forward(&mut [Segment { kv: &mut kv, tokens: &[0; 17], logits: WantedLogits::All }]);
        assert!(matches!(error.unwrap_err(), ForwardError::NotReserved { len: 17, capacity: 16, .. }));
        assert_eq!(kv.len(), 0);

        model.kv().reserve(&mut kv, 300).unwrap();
        let error = model.forward(&mut [Segment { kv: &mut kv, tokens: &[0; 257], logits: WantedLogits::All }]);
        assert!(matches!(error.unwrap_err(), ForwardError::ContextExceeded { len: 257, context_length: 256, .. }));

        let segment = Segment { kv: &mut kv, tokens: &[0; 256], logits: WantedLogits::Last };
        assert_eq!(model.forward(&mut [segment]).unwrap().n_rows(), 1);
        assert_eq!(kv.len(), 256);
        model.kv().release(kv);
    }
}

#[test]
fn an_empty_batch_gives_no_rows() {
    for operators in BOTH_OPERATORS {
        let Some(mut model) = model("reduced-head", &options(operators, Dtype::F32)) else { continue };
        let logits = model.forward(&mut []).unwrap();
        assert_eq!((logits.n_rows(), logits.width()), (0, 43));
    }
}

#[test]
fn options_that_cannot_be_met_are_refused_with_the_reason() {
    let refusal = |options: LoadOptions| load(&path("llama3"), &options).err().unwrap();
    let options = options(Operators::Auto, Dtype::Bf16);
    let error = refusal(LoadOptions { kv_tokens: 0, ..options.clone() });
    assert!(matches!(error, Error::NoKvMemory { context_length: 256 }), "{error}");
    let error = refusal(LoadOptions { device: Device::Cuda(99), ..options.clone() });
    assert!(error.to_string().starts_with("device cuda:99 cannot be used"), "{error}");
    let error = refusal(LoadOptions { dtype: Dtype::Int8, operators: Operators::Libtorch, ..options.clone() });
    assert!(matches!(error, Error::Int8Unavailable { .. }), "{error}");
    assert!(error.to_string().ends_with("use --dtype bf16"), "{error}");
    let missing = load(&path("nowhere.gguf"), &options).err().unwrap();
    assert!(missing.to_string().contains("nowhere.gguf"), "{missing}");
}

#[test]
fn the_description_says_what_was_loaded() {
    let Some(model) = model("reduced-head", &options(Operators::Libtorch, Dtype::F32)) else { return };
    let description = model.description();
    assert_eq!((description.vocab_size, description.n_rows_of_head, description.context_length), (128, 43, 256));
    assert_eq!(description.draft_vocab.as_ref().unwrap()[..3], [0, 3, 6]);
    assert_eq!((&*description.architecture, &*description.dtype), ("llama", "f32"));
    // Two layers of width 64 (4 and 2 heads of 16, feed-forward 96), norms, and 43 rows of head; the
    // embedding is not read by a step.
    let layer = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96 + 2 * 64;
    assert_eq!(description.step_weight_bytes, 4 * (2 * layer + 64 + 43 * 64));
}

#[test]
fn a_step_with_int8_reads_a_byte_per_weight_and_a_scale_per_output() {
    let Some(model) = model("reduced-head", &options(Operators::Fused, Dtype::Int8)) else { return };
    assert_eq!(&*model.description().dtype, "int8");
    // As above; the 43 rows of the head are padded to 48.
    let matrix = |n_out: u64, n_in: u64| n_out * (n_in + 4);
    let layer = matrix(64 + 2 * 32, 64) + matrix(64, 64) + matrix(2 * 96, 64) + matrix(64, 96) + 4 * 2 * 64;
    assert_eq!(model.description().step_weight_bytes, 2 * layer + 4 * 64 + matrix(48, 64));
}

#[test]
fn the_digest_follows_weights_and_dtype_but_not_the_operators() {
    let digest = |name, operators, dtype| Some(model(name, &options(operators, dtype))?.description().weights_digest);
    let libtorch = digest("llama3", Operators::Libtorch, Dtype::Bf16);
    if let Some(fused) = digest("llama3", Operators::Fused, Dtype::Bf16) {
        assert_eq!(libtorch, Some(fused));
        assert_ne!(libtorch, digest("llama3", Operators::Fused, Dtype::Int8));
    }
    assert_ne!(libtorch, digest("llama3", Operators::Libtorch, Dtype::F32));
    assert_ne!(libtorch, digest("reduced-head", Operators::Libtorch, Dtype::Bf16));
}

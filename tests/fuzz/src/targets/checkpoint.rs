//! What must hold for a model that was opened, whichever form it came in.

use specfleet_model::{
    chat_template::{ChatMessage, ChatTemplate},
    checkpoint::Checkpoint,
    tokenizer::{Detokenizer, Tokenizer},
};

/// Text of several kinds, with the names that templates and tokenizers treat specially.
const TEXTS: [&str; 5] =
    ["", "ab ba  12345\n\n", "<s>naïve — “日本語” 🦀</s>", "\u{0}\u{ffff}\t▁ĠĊ", "aaaaaaaaaaaaaaaaaaaaaaab"];

/// Reads everything that loading would read.
pub(super) fn check(checkpoint: &Checkpoint) {
    for expected in checkpoint.layout() {
        let Ok(tensor) = checkpoint.tensor(&expected.name) else { continue };
        assert_eq!(tensor.shape, expected.shape, "{}", expected.name);
        assert_eq!(tensor.values.len(), expected.shape.iter().product::<usize>(), "{}", expected.name);
    }
    let config = checkpoint.config();
    assert!(config.n_heads.is_multiple_of(config.n_kv_heads) && config.head_dim.is_multiple_of(2));
    assert_eq!(config.rope.inverse_frequencies(config.head_dim).len(), config.head_dim / 2);
    let generation = checkpoint.generation();
    let ids = generation.end_tokens.iter().chain(&generation.begin_token);
    assert!(ids.into_iter().all(|id| (*id as usize) < config.vocab_size));
    if let Ok(tokenizer) = checkpoint.tokenizer() {
        check_tokenizer(&tokenizer);
    }
    if let Ok(Some(template)) = checkpoint.chat_template() {
        render(&template);
    }
}

/// Every id that comes out is one that goes back in.
pub(super) fn check_tokenizer(tokenizer: &Tokenizer) {
    for (text, add_special) in TEXTS.into_iter().zip([true, false].into_iter().cycle()) {
        let Ok(ids) = tokenizer.encode(text, add_special) else { continue };
        let mut detokenizer = Detokenizer::new();
        for id in ids {
            assert!((id as usize) < tokenizer.vocab_size(), "id {id} of {}", tokenizer.vocab_size());
            detokenizer.push(tokenizer, id);
        }
        detokenizer.finish();
    }
}

/// Renders a conversation; whether that works is the template's business.
pub(super) fn render(template: &ChatTemplate) -> bool {
    let message = |role: &str, content: &str| ChatMessage::new(role, content);
    let messages = [message("system", "Be brief."), message("user", TEXTS[2]), message("assistant", TEXTS[3])];
    template.render(&messages, true).is_ok()
}

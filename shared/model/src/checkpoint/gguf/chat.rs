//! The chat template in GGUF metadata.

use super::super::error::Error;
use super::metadata::View;
use crate::chat_template::{ChatTemplate, SpecialTokens};

/// The template, with the begin and end tokens' spellings that it may refer to.
pub(super) fn template(view: &View<'_>) -> Result<Option<ChatTemplate>, Error> {
    let Some(source) = view.string("tokenizer.chat_template")? else { return Ok(None) };
    let tokens = view.strings("tokenizer.ggml.tokens")?.unwrap_or_default();
    let spelling = |key: &str| -> Result<String, Error> {
        let id = view.unsigned(key)?.and_then(|id| usize::try_from(id).ok());
        Ok(id.and_then(|id| tokens.get(id)).map(|text| (*text).to_owned()).unwrap_or_default())
    };
    let special = SpecialTokens {
        begin: spelling("tokenizer.ggml.bos_token_id")?,
        end: spelling("tokenizer.ggml.eos_token_id")?,
    };
    let template = ChatTemplate::new(source, special);
    template.map(Some).map_err(|source| Error::ChatTemplate { path: view.path().to_owned(), source })
}

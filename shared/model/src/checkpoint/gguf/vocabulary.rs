//! The vocabulary in GGUF metadata, for the tokenizer to be built from.

use specfleet_speculation::TokenId;

use super::super::error::Error;
use super::super::generation::GenerationDefaults;
use super::metadata::View;
use crate::tokenizer::{GgufVocabulary, TokenType};

/// Keys that name an id which ends a text: of a document, of a turn, of a message.
const END_KEYS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

/// Control tokens that end a turn even where a file, as older converters wrote it, names only the end of a document.
const END_SPELLINGS: [&str; 4] = ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_turn|>"];

/// The special ids and sampling defaults that a file states. GGUF names one end id where other forms list several.
pub(super) fn generation_defaults(view: &View<'_>, vocab_size: usize) -> Result<GenerationDefaults, Error> {
    let token = |key: &str| -> Result<Option<TokenId>, Error> {
        let id = view.unsigned(key)?.filter(|id| usize::try_from(*id).is_ok_and(|id| id < vocab_size));
        Ok(id.and_then(|id| id.try_into().ok()))
    };
    let mut end_tokens = Vec::new();
    for key in END_KEYS {
        end_tokens.extend(token(key)?);
    }
    let vocabulary = read(view)?;
    for (id, (text, kind)) in vocabulary.tokens.iter().zip(&vocabulary.types).enumerate() {
        if *kind == TokenType::Control && END_SPELLINGS.contains(text) && id < vocab_size {
            end_tokens.push(id as TokenId);
        }
    }
    end_tokens.sort_unstable();
    end_tokens.dedup();
    let float = |key: &str| -> Result<Option<f32>, Error> { Ok(view.float(key)?.map(|value| value as f32)) };
    let top_k = view.unsigned("general.sampling.top_k")?;
    Ok(GenerationDefaults {
        temperature: float("general.sampling.temp")?,
        top_p: float("general.sampling.top_p")?,
        top_k: top_k.and_then(|top_k| top_k.try_into().ok()),
        min_p: float("general.sampling.min_p")?,
        repetition_penalty: float("general.sampling.penalty_repeat")?,
        end_tokens,
        begin_token: token("tokenizer.ggml.bos_token_id")?,
    })
}

/// Reads the vocabulary; the strings stay in the mapped file.
pub(super) fn read<'a>(view: &View<'a>) -> Result<GgufVocabulary<'a>, Error> {
    let tokens = view
        .strings("tokenizer.ggml.tokens")?
        .ok_or_else(|| Error::incomplete(view.path(), vec!["the metadata lacks tokenizer.ggml.tokens".to_owned()]))?;
    let types = match view.signed_integers("tokenizer.ggml.token_type")? {
        Some(types) => types.into_iter().map(TokenType::from_ggml).collect(),
        None => vec![TokenType::Normal; tokens.len()],
    };
    let scores = view.floats("tokenizer.ggml.scores")?;
    if types.len() != tokens.len() || scores.as_ref().is_some_and(|scores| scores.len() != tokens.len()) {
        let problem = format!("{} tokens, but {} token types", tokens.len(), types.len());
        return Err(Error::damaged(view.path(), format!("{problem} or another number of scores")));
    }
    let unsigned =
        |key: &str| -> Result<Option<TokenId>, Error> { Ok(view.unsigned(key)?.and_then(|id| id.try_into().ok())) };
    Ok(GgufVocabulary {
        model: view.string("tokenizer.ggml.model")?.unwrap_or("(none)"),
        pre: view.string("tokenizer.ggml.pre")?.unwrap_or("default"),
        tokens,
        types,
        scores,
        merges: view.strings("tokenizer.ggml.merges")?,
        begin: unsigned("tokenizer.ggml.bos_token_id")?,
        end: unsigned("tokenizer.ggml.eos_token_id")?,
        unknown: unsigned("tokenizer.ggml.unknown_token_id")?,
        add_begin: view.bool("tokenizer.ggml.add_bos_token")?,
        add_end: view.bool("tokenizer.ggml.add_eos_token")?,
        add_space_prefix: view.bool("tokenizer.ggml.add_space_prefix")?,
    })
}

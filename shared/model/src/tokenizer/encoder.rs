//! What turns text into ids: the library, or a test's table.

use std::panic::{AssertUnwindSafe, catch_unwind};

use specfleet_speculation::TokenId;
use tokenizers::ModelWrapper;

use super::Error;

/// The two ways to encode.
pub(super) enum Encoder {
    Library(Box<tokenizers::Tokenizer>),
    #[cfg(feature = "scripted")]
    LongestMatch(Vec<(Vec<u8>, TokenId)>),
}

/// Parses a `tokenizer.json`.
pub(super) fn from_json(json: &[u8]) -> Result<tokenizers::Tokenizer, Error> {
    let tokenizer = contained(|| tokenizers::Tokenizer::from_bytes(json)).map_err(Error::Damaged)?;
    let name = match tokenizer.get_model() {
        ModelWrapper::BPE(_) => return Ok(tokenizer),
        ModelWrapper::WordPiece(_) => "WordPiece",
        ModelWrapper::WordLevel(_) => "WordLevel",
        ModelWrapper::Unigram(_) => "Unigram",
    };
    Err(Error::Unsupported { what: "model", name: name.to_owned(), supported: "BPE".to_owned() })
}

/// Calls the library. It trusts its files: it indexes without checks in places (a merge longer than every token, for one),
/// and its regular expressions panic when they give up. A damaged file or a strange text must not bring the process down,
/// so a panic in there becomes an error.
pub(super) fn contained<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("its parts contradict each other".to_owned()),
    }
}

impl Encoder {
    /// Files may carry truncation and padding from training; a prompt must never be cut or padded silently.
    pub(super) fn library(mut tokenizer: tokenizers::Tokenizer) -> Result<Self, Error> {
        tokenizer.with_truncation(None).map_err(|error| Error::Damaged(error.to_string()))?;
        tokenizer.with_padding(None);
        Ok(Self::Library(Box::new(tokenizer)))
    }

    /// Longest match first. Special tokens and empty ones never match.
    #[cfg(feature = "scripted")]
    pub(super) fn longest_match(tokens: &[Vec<u8>], specials: &[TokenId]) -> Self {
        let mut table: Vec<(Vec<u8>, TokenId)> =
            tokens.iter().cloned().zip(0..).filter(|(bytes, id)| !bytes.is_empty() && !specials.contains(id)).collect();
        table.sort_by_key(|(bytes, id)| (std::cmp::Reverse(bytes.len()), *id));
        Self::LongestMatch(table)
    }

    pub(super) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<TokenId>, Error> {
        match self {
            Self::Library(tokenizer) => contained(|| tokenizer.encode_fast(text, add_special))
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(Error::Encode),
            #[cfg(feature = "scripted")]
            Self::LongestMatch(table) => encode_longest_match(table, text),
        }
    }

    /// The content of a `tokenizer.json`, or why there is none.
    pub(super) fn to_json(&self) -> Result<String, String> {
        match self {
            Self::Library(tokenizer) => tokenizer.to_string(true).map_err(|error| error.to_string()),
            #[cfg(feature = "scripted")]
            Self::LongestMatch(_) => Err("a tokenizer made of raw bytes has no file form".to_owned()),
        }
    }
}

#[cfg(feature = "scripted")]
fn encode_longest_match(table: &[(Vec<u8>, TokenId)], text: &str) -> Result<Vec<TokenId>, Error> {
    let mut rest = text.as_bytes();
    let mut ids = Vec::new();
    while !rest.is_empty() {
        let (bytes, id) = table.iter().find(|(bytes, _)| rest.starts_with(bytes)).ok_or_else(|| {
            let offset = text.len() - rest.len();
            Error::Encode(format!("no token begins with the byte {:#04x} at offset {offset}", rest[0]))
        })?;
        ids.push(*id);
        rest = &rest[bytes.len()..];
    }
    Ok(ids)
}

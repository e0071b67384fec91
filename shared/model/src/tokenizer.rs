//! Text to token ids and back.
//!
//! Encoding is the `tokenizers` library's work. Decoding is not: a service that streams needs the *bytes* of one token
//! at a time, because a character may be spread over several tokens, and it needs to know which ids are text at all.
//! So a [`Tokenizer`] holds a table of every id's bytes beside the library's encoder, and [`Detokenizer`] puts bytes
//! together to characters.
//!
//! Models keep their tokenizer as `tokenizer.json` or as raw vocabulary in GGUF metadata; both become the same type.

mod byte_level;
mod detokenizer;
mod encoder;
mod gguf;
mod grammars;
mod pre_tokenizer;
mod sentencepiece;
mod spelling;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use detokenizer::Detokenizer;
pub(crate) use gguf::{GgufVocabulary, TokenType};
use specfleet_speculation::TokenId;

use crate::checkpoint::GenerationDefaults;
use encoder::Encoder;
use spelling::Spellings;

/// Text to ids and back. Clones share one vocabulary.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    encoder: Encoder,
    spellings: Spellings,
    end_tokens: Vec<TokenId>,
    begin_token: Option<TokenId>,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokenizer").field("vocab_size", &self.vocab_size()).finish_non_exhaustive()
    }
}

/// A tokenizer that cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a tokenizer that the library reads.
    #[error("the tokenizer is damaged: {0}; fetch it again")]
    Damaged(String),
    /// A kind of vocabulary that is not built.
    #[error("the tokenizer is of the unsupported {what} {name:?}; supported: {supported}")]
    Unsupported {
        /// "model" or "pre-tokenizer".
        what: &'static str,
        /// Its name.
        name: String,
        /// What would work.
        supported: String,
    },
    /// The text cannot be encoded.
    #[error("the text cannot be encoded: {0}")]
    Encode(String),
    /// The tokenizer cannot be written.
    #[error("cannot write the tokenizer to {path}: {reason}", path = path.display())]
    Save {
        /// Where to.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl Tokenizer {
    /// From the content of a `tokenizer.json`.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn from_json(json: &[u8], generation: &GenerationDefaults) -> Result<Self, Error> {
        Self::from_library(encoder::from_json(json)?, generation)
    }

    /// From the vocabulary in GGUF metadata.
    pub(crate) fn from_gguf(vocabulary: &GgufVocabulary<'_>, generation: &GenerationDefaults) -> Result<Self, Error> {
        Self::from_library(gguf::convert(vocabulary)?, generation)
    }

    /// A tokenizer whose tokens are raw bytes, for tests: encoding takes the longest token that matches, from left to
    /// right. Ids in `specials` are text neither way; their bytes are only a name.
    #[cfg(feature = "scripted")]
    pub fn from_bytes(tokens: Vec<Vec<u8>>, specials: &[TokenId], end: &[TokenId]) -> Self {
        let spellings = Spellings::from_bytes(&tokens, specials);
        let mut end_tokens = end.to_vec();
        end_tokens.sort_unstable();
        end_tokens.dedup();
        let encoder = Encoder::longest_match(&tokens, specials);
        Self(Arc::new(Inner { encoder, spellings, end_tokens, begin_token: None }))
    }

    /// The ids of a text, all below [`vocab_size`](Self::vocab_size). With `add_special`, those that the model expects around a text (a begin token, usually) are
    /// added; a prompt that a chat template rendered has them already.
    ///
    /// # Errors
    /// If a part of the text is in no token.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<TokenId>, Error> {
        let ids = self.0.encoder.encode(text, add_special)?;
        // A file may name any number as the id of the token that it puts before a text.
        match ids.iter().find(|id| self.spelling(**id).is_none()) {
            Some(id) => Err(Error::Encode(format!("the tokenizer adds the id {id}, which is none of its tokens"))),
            None => Ok(ids),
        }
    }

    /// The bytes that a token adds to the text; `None` for special ids and for ids that are not in the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        if self.is_special(id) { None } else { self.spelling(id) }
    }

    /// The bytes of a token, or the name of a special one; `None` for padding and unknown ids.
    pub fn spelling(&self, id: TokenId) -> Option<&[u8]> {
        self.0.spellings.get(id)
    }

    /// Whether an id controls (begins, ends, separates) rather than being text.
    pub fn is_special(&self, id: TokenId) -> bool {
        self.0.spellings.is_special(id)
    }

    /// One more than the highest id that has a spelling. A model may have more rows than that (padding).
    pub fn vocab_size(&self) -> usize {
        self.0.spellings.len()
    }

    /// Ids that end a text, ascending.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.0.end_tokens
    }

    /// The id that begins a text, if the model has one.
    pub fn begin_token(&self) -> Option<TokenId> {
        self.0.begin_token
    }

    /// Writes a `tokenizer.json` that encodes the same.
    ///
    /// # Errors
    /// If the file cannot be written, or the tokenizer is a test's (see `from_bytes`).
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let failed = |reason: String| Error::Save { path: path.to_owned(), reason };
        let json = self.0.encoder.to_json().map_err(failed)?;
        std::fs::write(path, json).map_err(|error| failed(error.to_string()))
    }

    fn from_library(library: tokenizers::Tokenizer, generation: &GenerationDefaults) -> Result<Self, Error> {
        let spellings = Spellings::from_library(&library)?;
        Ok(Self(Arc::new(Inner {
            encoder: Encoder::library(library)?,
            spellings,
            end_tokens: generation.end_tokens.clone(),
            begin_token: generation.begin_token,
        })))
    }
}

#[cfg(test)]
mod tests;

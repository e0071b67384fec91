//! Every id's bytes, in one flat table.

use specfleet_speculation::TokenId;
use tokenizers::DecoderWrapper;

use super::{Error, byte_level};

/// Far above every vocabulary in use.
const MAX_IDS: u64 = 1 << 24;
/// Ids that may spell nothing: as many as there are tokens, and some more for small vocabularies.
const MAX_GAPS: u64 = 1 << 16;

/// Bytes and the special flag of each id.
pub(super) struct Spellings {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    start: usize,
    len: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Absent,
    Text,
    Special,
}

/// How a vocabulary stores bytes as text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// GPT-2's byte alphabet.
    ByteLevel,
    /// "▁" for a space, and `<0x0A>` for a byte.
    SentencePiece,
    /// As it stands.
    Plain,
}

impl Spellings {
    /// From the library's vocabulary. Ids too large for any vocabulary, or for the tokens that there are, are refused before a
    /// table is made for them.
    pub(super) fn from_library(tokenizer: &tokenizers::Tokenizer) -> Result<Self, Error> {
        let style = style_of(tokenizer);
        let added = tokenizer.get_added_tokens_decoder();
        let vocab = tokenizer.get_vocab(true);
        let n_tokens = vocab.len() as u64;
        let n_ids = vocab.into_values().max().map_or(0, |highest| u64::from(highest) + 1);
        let most = MAX_IDS.min(2 * n_tokens + MAX_GAPS);
        if n_ids > most {
            return Err(Error::Damaged(format!("its {n_tokens} tokens have ids up to {n_ids}, more than {most}")));
        }
        let mut spellings = Self { bytes: Vec::new(), entries: Vec::new() };
        for id in 0..n_ids as TokenId {
            match added.get(&id) {
                Some(token) if token.special => spellings.push(token.content.as_bytes(), Kind::Special),
                Some(token) => spellings.push(token.content.as_bytes(), Kind::Text),
                None => match tokenizer.id_to_token(id) {
                    Some(token) => spellings.push(&style.bytes_of(&token), Kind::Text),
                    None => spellings.push(&[], Kind::Absent),
                },
            }
        }
        Ok(spellings)
    }

    #[cfg(feature = "scripted")]
    pub(super) fn from_bytes(tokens: &[Vec<u8>], specials: &[TokenId]) -> Self {
        let mut spellings = Self { bytes: Vec::new(), entries: Vec::new() };
        for (token, id) in tokens.iter().zip(0..) {
            spellings.push(token, if specials.contains(&id) { Kind::Special } else { Kind::Text });
        }
        spellings
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, id: TokenId) -> Option<&[u8]> {
        let entry = self.entries.get(usize::try_from(id).ok()?).filter(|entry| entry.kind != Kind::Absent)?;
        Some(&self.bytes[entry.start..entry.start + entry.len])
    }

    pub(super) fn is_special(&self, id: TokenId) -> bool {
        let entry = usize::try_from(id).ok().and_then(|id| self.entries.get(id));
        entry.is_some_and(|entry| entry.kind == Kind::Special)
    }

    fn push(&mut self, bytes: &[u8], kind: Kind) {
        self.entries.push(Entry { start: self.bytes.len(), len: bytes.len(), kind });
        self.bytes.extend_from_slice(bytes);
    }
}

impl Style {
    fn bytes_of(self, token: &str) -> Vec<u8> {
        match self {
            Self::ByteLevel => byte_level::bytes_of(token).unwrap_or_else(|| token.as_bytes().to_vec()),
            Self::SentencePiece => match fallback_byte(token) {
                Some(byte) => vec![byte],
                None => token.replace('▁', " ").into_bytes(),
            },
            Self::Plain => token.as_bytes().to_vec(),
        }
    }
}

/// The decoder says how tokens become text. Its steps may be nested.
fn style_of(tokenizer: &tokenizers::Tokenizer) -> Style {
    fn find(decoder: &DecoderWrapper) -> Style {
        match decoder {
            DecoderWrapper::ByteLevel(_) => Style::ByteLevel,
            DecoderWrapper::ByteFallback(_) | DecoderWrapper::Metaspace(_) => Style::SentencePiece,
            DecoderWrapper::Sequence(steps) => {
                steps.get_decoders().iter().map(find).find(|style| *style != Style::Plain).unwrap_or(Style::Plain)
            }
            _ => Style::Plain,
        }
    }
    tokenizer.get_decoder().map_or(Style::Plain, find)
}

/// The byte in a token like `<0x0A>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

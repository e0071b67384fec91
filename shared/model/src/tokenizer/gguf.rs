//! A tokenizer out of a GGUF file's vocabulary.
//!
//! GGUF keeps tokens, merges or scores, and the *name* of the pre-tokenizer; the rest of the pipeline is implied by
//! that name. Rebuilding it wrongly gives ids that look fine and differ from what the model was trained on.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use specfleet_speculation::TokenId;
use tokenizers::models::bpe::{BPE, BpeBuilder, Vocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer};

use super::{Error, pre_tokenizer, sentencepiece};

/// The vocabulary as the file has it.
pub(crate) struct GgufVocabulary<'a> {
    /// `tokenizer.ggml.model`: "gpt2" for byte-level BPE, "llama" for SentencePiece.
    pub(crate) model: &'a str,
    /// `tokenizer.ggml.pre`: which splits come before the merges.
    pub(crate) pre: &'a str,
    pub(crate) tokens: Vec<&'a str>,
    pub(crate) types: Vec<TokenType>,
    pub(crate) scores: Option<Vec<f32>>,
    pub(crate) merges: Option<Vec<&'a str>>,
    pub(crate) begin: Option<TokenId>,
    pub(crate) end: Option<TokenId>,
    pub(crate) unknown: Option<TokenId>,
    pub(crate) add_begin: Option<bool>,
    pub(crate) add_end: Option<bool>,
    pub(crate) add_space_prefix: Option<bool>,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// Text made by merges.
    Normal,
    /// Stands for text that no token spells.
    Unknown,
    /// Begins, ends or separates.
    Control,
    /// Text that is matched as a whole.
    UserDefined,
    /// Padding of the table.
    Unused,
    /// One byte.
    Byte,
}

impl TokenType {
    /// From its number in the format; numbers it does not know are taken for text.
    pub(crate) fn from_ggml(number: i32) -> Self {
        match number {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Normal,
        }
    }
}

/// Builds the tokenizer that the vocabulary implies.
pub(super) fn convert(vocabulary: &GgufVocabulary<'_>) -> Result<Tokenizer, Error> {
    match vocabulary.model {
        "gpt2" => byte_level_bpe(vocabulary),
        "llama" => sentencepiece_bpe(vocabulary),
        other => Err(Error::Unsupported {
            what: "model",
            name: other.to_owned(),
            supported: "gpt2 (byte-level BPE), llama (SentencePiece)".to_owned(),
        }),
    }
}

fn byte_level_bpe(vocabulary: &GgufVocabulary<'_>) -> Result<Tokenizer, Error> {
    let pre = pre_tokenizer::find(vocabulary.pre)?;
    let merges = vocabulary.merges.as_deref().ok_or_else(|| Error::Damaged("it has no merges".to_owned()))?;
    let vocab = vocabulary.vocab();
    let merges = merges.iter().map(|merge| split_merge(merge, &vocab)).collect::<Result<Vec<_>, _>>()?;
    let model = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(pre.ignore_merges);
    let parts = Parts {
        normalizer: pre.normalizer,
        pre_tokenizer: Some(pre.pre_tokenizer),
        decoder: json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}),
        adds_begin: vocabulary.add_begin.unwrap_or(pre.adds_begin),
        adds_end: vocabulary.add_end.unwrap_or(false),
    };
    parts.assemble(model, vocabulary)
}

fn sentencepiece_bpe(vocabulary: &GgufVocabulary<'_>) -> Result<Tokenizer, Error> {
    let scores = vocabulary.scores.as_deref().ok_or_else(|| Error::Damaged("it has no scores".to_owned()))?;
    let vocab = vocabulary.vocab();
    let merges = sentencepiece::merges(&vocabulary.tokens, scores, &vocabulary.types, &vocab)?;
    let has_prefix = vocabulary.add_space_prefix.unwrap_or(true);
    let mut model = BPE::builder().vocab_and_merges(vocab, merges).fuse_unk(true).byte_fallback(true);
    if let Some(unknown) = vocabulary.token(vocabulary.unknown) {
        model = model.unk_token(unknown.to_owned());
    }
    let parts = Parts {
        normalizer: Some(sentencepiece::normalizer(has_prefix)),
        pre_tokenizer: None,
        decoder: sentencepiece::decoder(has_prefix),
        adds_begin: vocabulary.add_begin.unwrap_or(true),
        adds_end: vocabulary.add_end.unwrap_or(false),
    };
    parts.assemble(model, vocabulary)
}

impl GgufVocabulary<'_> {
    /// Text to id. Padding has no text; where two ids have the same text the first one counts.
    fn vocab(&self) -> Vocab {
        let mut vocab = Vocab::default();
        for ((token, kind), id) in self.tokens.iter().zip(&self.types).zip(0..) {
            if *kind != TokenType::Unused {
                vocab.entry((*token).to_owned()).or_insert(id);
            }
        }
        vocab
    }

    fn token(&self, id: Option<TokenId>) -> Option<&str> {
        self.tokens.get(usize::try_from(id?).ok()?).copied()
    }

    /// Tokens that are cut out of the text before anything else looks at it.
    fn added_tokens(&self) -> Vec<AddedToken> {
        let tokens = self.tokens.iter().zip(&self.types);
        tokens
            .filter_map(|(token, kind)| match kind {
                TokenType::Control | TokenType::Unknown => Some(AddedToken::from(*token, true)),
                TokenType::UserDefined => Some(AddedToken::from(*token, false)),
                TokenType::Normal | TokenType::Unused | TokenType::Byte => None,
            })
            .map(|token| token.normalized(false))
            .collect()
    }
}

/// The stages around the merges, as `tokenizer.json` writes them.
struct Parts {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    decoder: Value,
    adds_begin: bool,
    adds_end: bool,
}

impl Parts {
    fn assemble(self, model: BpeBuilder, vocabulary: &GgufVocabulary<'_>) -> Result<Tokenizer, Error> {
        let failed = |error: tokenizers::Error| Error::Damaged(error.to_string());
        let begin = vocabulary.begin.filter(|_| self.adds_begin);
        let end = vocabulary.end.filter(|_| self.adds_end);
        let mut tokenizer = Tokenizer::new(model.build().map_err(failed)?);
        let normalizer: Option<NormalizerWrapper> = self.normalizer.map(part).transpose()?;
        let pre_tokenizer: Option<PreTokenizerWrapper> = self.pre_tokenizer.map(part).transpose()?;
        let post_processor: Option<PostProcessorWrapper> = template(vocabulary, begin, end).map(part).transpose()?;
        tokenizer.with_normalizer(normalizer).map_err(failed)?;
        tokenizer.with_pre_tokenizer(pre_tokenizer).with_post_processor(post_processor);
        tokenizer.with_decoder(Some(part::<DecoderWrapper>(self.decoder)?));
        tokenizer.add_tokens(vocabulary.added_tokens()).map_err(failed)?;
        Ok(tokenizer)
    }
}

fn part<T: DeserializeOwned>(json: Value) -> Result<T, Error> {
    serde_json::from_value(json).map_err(|error| Error::Damaged(error.to_string()))
}

/// Puts the begin and end tokens around a text.
fn template(vocabulary: &GgufVocabulary<'_>, begin: Option<TokenId>, end: Option<TokenId>) -> Option<Value> {
    let begin = begin.and_then(|id| Some((id, vocabulary.token(Some(id))?)));
    let end = end.and_then(|id| Some((id, vocabulary.token(Some(id))?)));
    if begin.is_none() && end.is_none() {
        return None;
    }
    let special =
        |(_, token): &(TokenId, &str), segment: u8| json!({"SpecialToken": {"id": token, "type_id": segment}});
    let around = |name: &str, segment: u8| {
        let text = json!({"Sequence": {"id": name, "type_id": segment}});
        let begin = begin.as_ref().map(|token| special(token, segment));
        let end = end.as_ref().map(|token| special(token, segment));
        begin.into_iter().chain([text]).chain(end).collect::<Vec<_>>()
    };
    let special_tokens: serde_json::Map<String, Value> = [begin, end]
        .into_iter()
        .flatten()
        .map(|(id, token)| (token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]})))
        .collect();
    let pair = [around("A", 0), around("B", 1)].concat();
    Some(json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": special_tokens,
    }))
}

/// "left right". The library trusts that both, and what they make, are in the vocabulary; a file may lie.
fn split_merge(merge: &str, vocab: &Vocab) -> Result<(String, String), Error> {
    merge
        .split_once(' ')
        .filter(|(left, right)| {
            vocab.contains_key(*left) && vocab.contains_key(*right) && vocab.contains_key(&[*left, *right].concat())
        })
        .map(|(left, right)| (left.to_owned(), right.to_owned()))
        .ok_or_else(|| Error::Damaged(format!("the merge {merge:?} is not of two tokens into a third")))
}

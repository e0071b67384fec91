//! What a model can write: a trie of its tokens' bytes, for walking a grammar along.

use std::sync::Arc;

use llguidance::{
    ParserFactory,
    api::ParserLimits,
    earley::SlicedBiasComputer,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokRxInfo, TokTrie},
};
use specfleet_speculation::TokenId;

use crate::Error;

/// Marks special tokens in the trie. No UTF-8 text holds this byte.
const SPECIAL: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
/// Longer tokens (there are some of a thousand spaces) are never needed to write anything, and the trie cannot hold them.
const LONGEST_TOKEN: usize = 512;
/// What the trie can hold, nodes and ids.
const MOST_NODES: usize = (1 << 22) - 1;

/// What a token adds to the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling<'a> {
    /// Bytes, which need not be whole characters.
    Text(&'a [u8]),
    /// Nothing; it controls, and has a name.
    Special(&'a [u8]),
    /// An id that is no token.
    Absent,
}

/// The tokens of a model, ready for grammars. For a draft with fewer ids than its target it is the target's, since ids are
/// in the target's numbering.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    pub(crate) end_tokens: Arc<[TokenId]>,
}

impl Vocabulary {
    /// Of the ids below `n_ids`. An end token ends the text and is never part of it, even if it spells something.
    ///
    /// # Errors
    /// [`Error::NoEndToken`], [`Error::VocabularyTooLarge`].
    pub fn new<'a>(
        n_ids: usize,
        spelling: impl Fn(TokenId) -> Spelling<'a>,
        end_tokens: &[TokenId],
    ) -> Result<Self, Error> {
        let end_tokens: Vec<TokenId> = end_tokens.iter().copied().filter(|id| (*id as usize) < n_ids).collect();
        let first_end = *end_tokens.first().ok_or(Error::NoEndToken)?;
        let too_large = |n_bytes| Error::VocabularyTooLarge { n_ids, n_bytes };
        let vocab_size = u32::try_from(n_ids).ok().filter(|_| n_ids <= MOST_NODES).ok_or_else(|| too_large(0))?;
        let words: Vec<Vec<u8>> = (0..vocab_size).map(|id| word(spelling(id), end_tokens.contains(&id))).collect();
        let n_bytes = words.iter().map(Vec::len).sum();
        if n_bytes > MOST_NODES {
            return Err(too_large(n_bytes));
        }
        let trie = TokTrie::from(&TokRxInfo::new(vocab_size, first_end), &words).with_eos_tokens(&end_tokens);
        // Not canonical: no spelling of a text is preferred to others.
        let tokens = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&(tokens as _), InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| Error::Unusable(crate::error::Reason::new(error)))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Self { factory, end_tokens: end_tokens.into() })
    }
}

/// A grammar comes from a client and its masks are computed on the engine's thread. Each bound is a few times what schemas
/// need that people use, and what they come to in time and memory is tested.
fn limits() -> ParserLimits {
    ParserLimits {
        // To build the lexer: some 20 ms.
        initial_lexer_fuel: 1_000_000,
        max_grammar_size: 100_000,
        // For one mask: some 5 ms.
        step_lexer_fuel: 70_000,
        // Each costs the more the more there are in its row: some 50 ms where all rows of a mask are full. Schemas have wide
        // rows too, some items for each property that may come next, but hardly two for a mask.
        step_max_items: 10_000,
        max_items_in_row: 1000,
        // One to two kilobytes each: memory is bounded by what is measured, and this is more than it holds.
        max_lexer_states: 20_000,
        // Up to seconds, for what is mostly not needed.
        precompute_large_lexemes: false,
        // Would quote the whole grammar.
        verbose_errors: false,
    }
}

/// How a token stands in the trie; empty for one that is never allowed as text.
fn word(spelling: Spelling<'_>, is_end: bool) -> Vec<u8> {
    match spelling {
        Spelling::Special(name) if name.len() <= LONGEST_TOKEN => [&[SPECIAL], name].concat(),
        Spelling::Text(bytes) if !is_end && bytes.len() <= LONGEST_TOKEN && !bytes.contains(&SPECIAL) => bytes.to_vec(),
        Spelling::Special(_) | Spelling::Text(_) | Spelling::Absent => Vec::new(),
    }
}

//! Forms of output, over the tokens of a tokenizer.

use specfleet_grammar::{Error, Grammars, Spelling, Vocabulary};
use specfleet_speculation::TokenId;

use super::Tokenizer;

impl Tokenizer {
    /// A compiler of grammars whose texts end with any of `end_tokens`. Takes some tenths of a second for a large
    /// vocabulary.
    ///
    /// # Errors
    /// Without end tokens, or if the vocabulary is too large.
    pub fn grammars(&self, end_tokens: &[TokenId]) -> Result<Grammars, Error> {
        let spelling = |id| match self.spelling(id) {
            Some(name) if self.is_special(id) => Spelling::Special(name),
            Some(bytes) => Spelling::Text(bytes),
            None => Spelling::Absent,
        };
        Vocabulary::new(self.vocab_size(), spelling, end_tokens).map(Grammars::new)
    }
}

//! The library's parser, and what it takes.
//!
//! It may give up, and it may have a fault. Either ends this one parser, which says from then on why.

use std::{
    convert::Infallible,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use llguidance::{
    TokenParser,
    api::StopReason,
    toktrie::{SimpleVob, TokenId},
};

use crate::{Error, error::Reason};

/// Memory of the lexer's automaton for each byte that the library counts, which are those of its tables without their
/// reserves.
const LEXER_FACTOR: usize = 2;
/// An item of the parser's chart, with an argument and the reserve of a growing table.
const ITEM_BYTES: usize = 24;
/// A row of the chart, without its items.
const ROW_BYTES: usize = 200;
/// A byte of text.
const TEXT_BYTES: usize = 32;

/// A parser that works, or why it does not.
#[derive(Clone)]
pub(crate) struct Parser {
    parser: Result<Box<TokenParser>, Reason>,
}

impl Parser {
    pub(crate) fn new(mut parser: TokenParser) -> Self {
        if parser.is_fresh() {
            parser.start_without_prompt();
        }
        Self { parser: Ok(Box::new(parser)) }
    }

    /// A copy that shares nothing; a clone shares the lexer's automaton, which grows while either runs.
    pub(crate) fn separate(&self) -> Self {
        let parser = self.parser.as_ref().map_err(Clone::clone);
        Self { parser: parser.map(|parser| Box::new(parser.deep_clone())) }
    }

    /// Moves over a token, and returns the memory that its part of the chart takes.
    pub(crate) fn consume(&mut self, token: TokenId) -> Result<usize, Error> {
        self.with(|parser| {
            let before = parser.parser_stats().clone();
            parser.consume_token(token)?;
            parser.check_stop().map(|_| {
                let added = parser.parser_stats().delta(&before);
                let n_text = parser.token_env.tok_trie().token_len(token);
                added.all_items * ITEM_BYTES + added.rows * ROW_BYTES + n_text * TEXT_BYTES
            })
        })
    }

    pub(crate) fn rollback(&mut self, n_tokens: usize) -> Result<(), Error> {
        self.with(|parser| {
            let taken_back = parser.rollback(n_tokens);
            if n_tokens > 0 {
                // The last mask is kept by the number of its row, and another row may come to have that number.
                parser.invalidate_bias_cache();
            }
            taken_back
        })
    }

    /// The tokens that may follow; where the text can only end, the end tokens.
    pub(crate) fn mask(&mut self) -> Result<SimpleVob, Error> {
        self.with(|parser| match parser.stop_reason() {
            StopReason::NotStopped => parser.compute_mask(),
            _ => Ok(parser.token_env.tok_trie().eos_token_set()),
        })
    }

    /// How many of the tokens, from the first on, may follow.
    pub(crate) fn n_valid(&mut self, tokens: &[TokenId]) -> Result<usize, Error> {
        self.with(|parser| parser.validate_tokens_raw(tokens))
    }

    /// Whether nothing but the end can follow.
    pub(crate) fn is_stopped(&self) -> bool {
        self.parser.as_ref().is_ok_and(|parser| parser.stopped())
    }

    /// Memory that the lexer's automaton takes, which clones share; nothing once the parser has ended.
    pub(crate) fn lexer_bytes(&mut self) -> usize {
        self.with(|parser| Ok::<_, Infallible>(parser.parser.lexer_stats().num_bytes * LEXER_FACTOR)).unwrap_or(0)
    }

    /// Gives up.
    pub(crate) fn fail(&mut self, reason: Reason) -> Error {
        self.parser = Err(reason.clone());
        Error::Stuck(reason)
    }

    fn with<T, E: fmt::Display>(&mut self, work: impl FnOnce(&mut TokenParser) -> Result<T, E>) -> Result<T, Error> {
        let parser = self.parser.as_mut().map_err(|reason| Error::Stuck(reason.clone()))?;
        // The library's own way to catch a panic spells out the whole stack, which takes long, and an engine waits for it.
        let reason = match catch_unwind(AssertUnwindSafe(|| work(parser))) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => Reason::new(error),
            Err(_) => Reason::new("the parser panicked"),
        };
        Err(self.fail(reason))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use llguidance::api::TopLevelGrammar;

    use super::*;
    use crate::{Spelling, Vocabulary};

    #[test]
    fn a_panic_ends_one_parser_which_says_so() {
        let spelling = |id| if id == 1 { Spelling::Special(b"<end>") } else { Spelling::Text(b"a") };
        let vocabulary = Vocabulary::new(2, spelling, &[1]).unwrap();
        let parser = || Parser::new(vocabulary.factory.create_parser(TopLevelGrammar::from_regex("a")).unwrap());
        let (mut broken, mut whole) = (parser(), parser());
        let panicked = broken.with(|_| -> Result<(), Infallible> { panic!("a fault of ours") }).unwrap_err();
        assert_eq!(panicked.to_string(), "cannot be followed any further: the parser panicked");
        assert_eq!(broken.mask().unwrap_err(), panicked);
        assert!(whole.mask().is_ok());
    }
}

//! Over a vocabulary of all bytes, some longer tokens, and special ones.
#![allow(clippy::unwrap_used)]

mod forms;
mod hostile;
mod masks;
mod memory;

use specfleet_speculation::TokenId;

use crate::{Error, Form, Grammars, Matcher, Spelling, Vocabulary};

/// What ids from 256 on spell; those below are single bytes.
const LONGER: [&str; 12] = ["12", "123", "4x", "{\"", "\":", "\"}", "true", " \"", "\u{e9}", "  ", "name", "\u{1f980}"];
const CALL: TokenId = 300;
const END: TokenId = 301;
const OTHER_END: TokenId = 302;
const N_IDS: usize = 303;

fn spelling(id: TokenId) -> Spelling<'static> {
    const BYTES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut index = 0;
        while index < 256 {
            bytes[index] = index as u8;
            index += 1;
        }
        bytes
    };
    match id as usize {
        byte @ ..256 => Spelling::Text(&BYTES[byte..byte + 1]),
        longer if longer < 256 + LONGER.len() => Spelling::Text(LONGER[longer - 256].as_bytes()),
        300 => Spelling::Special(b"<call>"),
        301 => Spelling::Special(b"<end>"),
        302 => Spelling::Special(b"<turn>"),
        _ => Spelling::Absent,
    }
}

fn grammars() -> Grammars {
    Grammars::new(Vocabulary::new(N_IDS, spelling, &[END, OTHER_END]).unwrap())
}

fn compile(form: &Form) -> Result<Matcher, Error> {
    grammars().compile(form, 1)
}

fn regex(source: &str) -> Matcher {
    compile(&Form::Regex(source.into())).unwrap()
}

fn schema(source: &str) -> Matcher {
    compile(&Form::JsonSchema(source.into())).unwrap()
}

/// The id of a token by its text.
fn id(text: &str) -> TokenId {
    match LONGER.iter().position(|longer| *longer == text) {
        Some(index) => 256 + index as TokenId,
        None => {
            assert_eq!(text.len(), 1, "{text:?} is no token");
            TokenId::from(text.as_bytes()[0])
        }
    }
}

/// Single bytes.
fn bytes(text: &str) -> Vec<TokenId> {
    text.bytes().map(TokenId::from).collect()
}

/// The ids that may follow.
fn allowed(matcher: &mut Matcher, pending: &[TokenId]) -> Vec<TokenId> {
    let mask = matcher.mask(pending).unwrap();
    (0..N_IDS as TokenId + 40).filter(|id| mask.allows(*id)).collect()
}

/// Whether a text, byte by byte, is of the form from beginning to end.
fn matches(mut matcher: Matcher, text: &str) -> bool {
    let mut tokens = bytes(text);
    tokens.push(END);
    matcher.n_allowed(&tokens) == tokens.len()
}

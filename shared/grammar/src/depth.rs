//! How deep a form nests brackets.
//!
//! The library that reads a form recurses along its brackets, so there must be a bound. Brackets in strings, expressions,
//! comments and names of tokens are letters to that reader; but a string of a schema may be a pattern, along whose brackets
//! another reader recurses. So what stands between the quotes, or the slashes, is counted by itself: many strings with an
//! open bracket each are no deep form.
//!
//! JSON has no slashes, number signs and angle brackets outside strings, and its strings end where those of a grammar do, so
//! one way of reading will do for both. A text that is neither may be counted wrongly: it is refused before anything recurses.

use std::iter::Peekable;

use crate::Form;

/// The most brackets that are open at a time.
pub(crate) fn of(form: &Form) -> usize {
    let mut bytes = form.source().bytes().peekable();
    match form {
        Form::Regex(_) => of_quoted(&mut bytes, None),
        Form::JsonSchema(_) | Form::Lark(_) => of_grammar(&mut bytes),
    }
}

#[derive(Default)]
struct Nesting {
    open: usize,
    deepest: usize,
}

impl Nesting {
    fn see(&mut self, byte: u8) {
        match byte {
            b'(' | b'[' | b'{' => self.open += 1,
            b')' | b']' | b'}' => self.open = self.open.saturating_sub(1),
            _ => {}
        }
        self.deepest = self.deepest.max(self.open);
    }
}

fn of_grammar(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> usize {
    let mut outside = Nesting::default();
    let mut in_quotes = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_quotes = in_quotes.max(of_quoted(bytes, Some(b'"'))),
            b'#' => skip_past(bytes, b'\n'),
            b'/' if bytes.peek() == Some(&b'/') => skip_past(bytes, b'\n'),
            b'/' => in_quotes = in_quotes.max(of_quoted(bytes, Some(b'/'))),
            b'<' => skip_past(bytes, b'>'),
            _ => outside.see(byte),
        }
    }
    outside.deepest.max(in_quotes)
}

/// Of what stands before `end`. What is escaped is a letter, unless it is the number of a bracket.
fn of_quoted(bytes: &mut impl Iterator<Item = u8>, end: Option<u8>) -> usize {
    let mut nesting = Nesting::default();
    while let Some(byte) = bytes.next().filter(|byte| Some(*byte) != end) {
        match byte {
            b'\\' => {
                if bytes.next() == Some(b'u') {
                    nesting.see(numbered(bytes));
                }
            }
            _ => nesting.see(byte),
        }
    }
    nesting.deepest
}

/// What four hexadecimal digits stand for, if it is ASCII; 0 if it is not.
fn numbered(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    let digits = bytes.take(4).map(|digit| char::from(digit).to_digit(16).unwrap_or(0));
    let number = digits.fold(0, |number, digit| number * 16 + digit);
    u8::try_from(number).ok().filter(u8::is_ascii).unwrap_or(0)
}

fn skip_past(bytes: &mut impl Iterator<Item = u8>, end: u8) {
    bytes.find(|byte| *byte == end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(source: &str) -> usize {
        of(&Form::JsonSchema(source.to_owned()))
    }

    fn lark(source: &str) -> usize {
        of(&Form::Lark(source.to_owned()))
    }

    fn regex(source: &str) -> usize {
        of(&Form::Regex(source.to_owned()))
    }

    #[test]
    fn brackets_in_strings_are_letters() {
        assert_eq!(json(r#"{"enum": [":(", "[", "{", "\"(", "\\", "{{"]}"#), 2);
        assert_eq!(json(&format!("[{}]", vec![r#""((""#; 1000].join(", "))), 2, "each by itself");
        assert_eq!(lark(r#"start: ("(" "[" "\"{") | /\(\[/ | <[7]> | "a" // ((("#), 1);
        assert_eq!(lark("start: \"a\" # (((\n  | (\"b\" [\"c\"])"), 2);
        assert_eq!(lark(r#"start: %json {"pattern": "/\"", "items": {}} | "(""#), 2);
        assert_eq!(regex(r"\(\[\{a"), 0);
    }

    #[test]
    fn a_string_hides_no_bracket_behind_it() {
        assert_eq!(json(r#"{"a\\": [[["b\\\""]]]}"#), 4);
        assert_eq!(lark(r#"start: /"/ (/"/ ("/" (<"> ("a"))))"#), 4);
        assert_eq!(lark("A: /#/ (\"//\" (/[\\/]\"/ (\"b\")))"), 3);
    }

    #[test]
    fn a_pattern_in_a_string_is_counted() {
        assert_eq!(json(r#"{"pattern": "((((a))))"}"#), 4);
        assert_eq!(json(r#"{"pattern": "\u0028\u0028(\u005Ba]))\u0029\u0061"}"#), 4, "however it is written");
        assert_eq!(lark("A: /(((a)))/"), 3);
        assert_eq!(regex("((a)(b(c)))"), 3);
    }
}

//! How deep a form nests brackets.
//!
//! The library that reads a form recurses along its brackets, so there must be a bound. Brackets in strings, expressions,
//! comments and names of tokens are letters to that reader; but a string of a schema may be a pattern, along whose brackets
//! another reader recurses. So what stands between the quotes, or the slashes, is counted by itself: many strings with an
//! open bracket each are no deep form.
//!
//! JSON has no slashes, number signs and angle brackets outside strings, and its strings end where those of a grammar do, so
//! one way of reading will do for both. A text that is neither may be counted wrongly: it is refused before anything recurses.

use std::{iter::Peekable, mem};

use crate::Form;

/// The most brackets that are open at a time.
pub(crate) fn of(form: &Form) -> usize {
    let mut bytes = form.source().bytes().peekable();
    match form {
        Form::Regex(_) => of_expression(&mut bytes, None),
        Form::JsonSchema(_) | Form::Lark(_) => of_grammar(&mut bytes),
    }
}

/// Brackets of three kinds. One that closes what is not open is passed over.
#[derive(Default)]
struct Nesting {
    /// What would close the open ones, the innermost last.
    closers: Vec<u8>,
    deepest: usize,
}

impl Nesting {
    fn see(&mut self, byte: u8) {
        match byte {
            b'(' => self.closers.push(b')'),
            b'[' => self.closers.push(b']'),
            b'{' => self.closers.push(b'}'),
            _ if self.closers.last() == Some(&byte) => _ = self.closers.pop(),
            _ => {}
        }
        self.deepest = self.deepest.max(self.closers.len());
    }
}

/// A regular expression. What is escaped is a letter, and so are all brackets but square ones in a class of letters.
#[derive(Default)]
struct Expression {
    nesting: Nesting,
    is_escaped: bool,
    /// The last two bytes, 0 for what was escaped: a class may begin with a square bracket that does not close it.
    last: [u8; 2],
}

impl Expression {
    fn see(&mut self, byte: u8) {
        let is_escaped = mem::take(&mut self.is_escaped);
        let is_in_class = self.nesting.closers.last() == Some(&b']');
        let begins_class = is_in_class && matches!(self.last, [_, b'['] | [b'[', b'^']);
        match byte {
            _ if is_escaped => {}
            b'\\' => self.is_escaped = true,
            b']' if begins_class => {}
            b'(' | b')' | b'{' | b'}' if is_in_class => {}
            _ => self.nesting.see(byte),
        }
        self.last = [self.last[1], if is_escaped { 0 } else { byte }];
    }
}

fn of_grammar(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> usize {
    let mut outside = Nesting::default();
    let mut in_quotes = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_quotes = in_quotes.max(of_string(bytes)),
            b'#' => skip_past(bytes, b'\n'),
            b'/' if bytes.peek() == Some(&b'/') => skip_past(bytes, b'\n'),
            b'/' => in_quotes = in_quotes.max(of_expression(bytes, Some(b'/'))),
            b'<' => skip_past(bytes, b'>'),
            _ => outside.see(byte),
        }
    }
    outside.deepest.max(in_quotes)
}

/// Of what stands before `end`.
fn of_expression(bytes: &mut impl Iterator<Item = u8>, end: Option<u8>) -> usize {
    let mut expression = Expression::default();
    while let Some(byte) = bytes.next()
        && (Some(byte) != end || expression.is_escaped)
    {
        expression.see(byte);
    }
    expression.nesting.deepest
}

/// Of what a string stands for, which may be an expression with escapes of its own.
fn of_string(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> usize {
    let mut expression = Expression::default();
    while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
        expression.see(if byte == b'\\' { escaped(bytes) } else { byte });
    }
    expression.nesting.deepest
}

/// What is written behind a backslash in a string; 0 for what is no ASCII or no bracket in any case.
fn escaped(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> u8 {
    match bytes.next() {
        Some(b'u') => {
            let digits = std::iter::from_fn(|| bytes.next_if(u8::is_ascii_hexdigit)).take(4);
            let digits = digits.map(|digit| char::from(digit).to_digit(16).unwrap_or_default());
            let number = digits.fold(0, |number, digit| number * 16 + digit);
            u8::try_from(number).ok().filter(u8::is_ascii).unwrap_or_default()
        }
        Some(itself @ (b'\\' | b'"' | b'/')) => itself,
        _ => 0,
    }
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
        assert_eq!(regex(r"(\u{0028}(\x28(\p{L})))"), 4, "with the braces of the innermost");
    }

    #[test]
    fn what_a_pattern_escapes_is_a_letter() {
        assert_eq!(json(&format!(r#"{{"pattern": "{}"}}"#, r"\\(\\[\\{".repeat(100))), 1);
        assert_eq!(json(r#"{"pattern": "\\\\((\u005c(a"}"#), 2, "and a backslash may be escaped itself");
        assert_eq!(lark(&format!("A: /{}/", r"\(\[\/\{".repeat(100))), 0);
    }

    #[test]
    fn a_bracket_is_closed_by_its_own_kind() {
        assert_eq!(json(&"(}".repeat(100)), 100);
        assert_eq!(lark(&format!("start: {}", "[)".repeat(100))), 100);
        assert_eq!(regex(&"(}".repeat(100)), 100);
        assert_eq!(regex("{)()"), 2);
    }

    #[test]
    fn in_a_class_of_letters_there_are_classes_only() {
        assert_eq!(regex(&"[(]".repeat(100)), 1);
        assert_eq!(regex(&r"[\]({]".repeat(100)), 1);
        assert_eq!(regex(&"([)]".repeat(100)), 101, "the round ones are open");
        assert_eq!(regex(&"[a".repeat(100)), 100);
        assert_eq!(regex(&"[]".repeat(100)), 100, "none of these is closed");
        assert_eq!(regex(&"[^]".repeat(100)), 100);
        assert_eq!(regex(&"[^^]".repeat(100)), 1);
    }
}

#![allow(clippy::unwrap_used)]

use specfleet_grammar::{Form as Source, Grammars, Spelling, Vocabulary};

use super::*;
use crate::{api::openai::tools::Function, dialect::Thoughts};

/// Bytes, an end token, and these special tokens.
const SPECIALS: [&str; 5] = ["<tool_call>", "</tool_call>", "<|python_tag|>", "<think>", "</think>"];
const END: u32 = 256;

const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
const OTHER: &str =
    "<tool_call>\n{\"name\": \"fg\", \"arguments\": {\"y\": {\"z\": [1, \"q\"]}, \"w\": null}}\n</tool_call>";
const WRONG: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"one\"}}\n</tool_call>";

fn grammars() -> Grammars {
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    let spelling = |id: u32| match id {
        ..END => Spelling::Text(&bytes[id as usize..=id as usize]),
        END => Spelling::Special(b"<end>"),
        _ => Spelling::Special(SPECIALS[(id - END - 1) as usize].as_bytes()),
    };
    Grammars::new(Vocabulary::new(257 + SPECIALS.len(), spelling, &[END]).unwrap())
}

fn special(text: &str) -> u32 {
    END + 1 + SPECIALS.iter().position(|name| *name == text).unwrap() as u32
}

/// Bytes, but special tokens where they are meant to be such.
fn tokens(text: &str, is_special: bool) -> Vec<u32> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let name = SPECIALS.iter().find(|name| is_special && rest.starts_with(**name));
        tokens.push(name.map_or(u32::from(first), |name| special(name)));
        rest = &rest[name.map_or(1, |name| name.len())..];
    }
    tokens
}

/// Whether a text has the form: to its end, or as far as it goes.
#[derive(Debug, PartialEq, Eq)]
enum Fits {
    Whole,
    SoFar,
    Not,
}
use Fits::{Not, SoFar, Whole};

fn fits(grammars: &Grammars, grammar: &OutputGrammar, tokens: &[u32]) -> Fits {
    let form = match grammar.form.clone().unwrap() {
        Form::JsonSchema(source) => Source::JsonSchema(source),
        Form::Lark(source) => Source::Lark(source),
        Form::Regex(source) => Source::Regex(source),
    };
    let mut matcher = grammars.compile(&form, 1).unwrap_or_else(|error| panic!("{error}: {form:?}"));
    for token in tokens {
        if !matcher.mask(&[]).unwrap().allows(*token) {
            return Not;
        }
        matcher.commit(*token);
    }
    if matcher.mask(&[]).unwrap().allows(END) { Whole } else { SoFar }
}

fn tag(text: &'static str, is_special: bool) -> Tag {
    Tag { text, special: is_special.then(|| special(text)) }
}

fn hermes(is_special: bool) -> CallForm {
    CallForm::Hermes { open: tag("<tool_call>", is_special), close: tag("</tool_call>", is_special) }
}

fn thoughts(are_open: bool, is_special: bool) -> Option<Thoughts> {
    Some(Thoughts { open: tag("<think>", is_special), close: tag("</think>", is_special), are_open })
}

fn tools(must_call: bool, in_parallel: bool) -> Tools {
    let object = |value: Value| value.as_object().unwrap().clone();
    let arguments = object(json!({
        "type": "object", "properties": {"x": {"$ref": "#/$defs/number"}}, "required": ["x"],
        "additionalProperties": false, "$defs": {"number": {"type": "integer"}},
    }));
    let function = |index, name: &str, arguments| Function { name: name.to_owned(), arguments, index };
    let callable = vec![function(0, "f", arguments), function(1, "fg", object(json!({"type": "object"})))];
    Tools { described: Vec::new(), callable, must_call, in_parallel }
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false})
}

/// Whether texts have the form, with tags as text and with tags as tokens of their own.
#[track_caller]
fn check(thinking: Option<bool>, tools: Option<&Tools>, schema: Option<&Value>, cases: &[(&str, Fits)]) {
    let grammars = grammars();
    for is_special in [false, true] {
        let calls = hermes(is_special);
        let thoughts = thinking.and_then(|are_open| thoughts(are_open, is_special));
        let dialect = Dialect { calls: Some(calls.clone()), thoughts };
        let grammar = grammar(&dialect, tools.map(|tools| (tools, &calls)), schema).unwrap();
        for (text, expected) in cases {
            let found = fits(&grammars, &grammar, &tokens(text, is_special));
            assert_eq!(found, *expected, "{text:?}, special: {is_special}, of\n{grammar:?}");
        }
    }
}

#[test]
fn where_a_call_may_come_text_is_free_and_a_call_that_is_begun_is_a_call() {
    let cases = [
        ("", Whole),
        ("Hello <b> {\"name\": 1} <tool_", Whole),
        (CALL, Whole),
        (&format!("Let me see.\n{CALL}\n{OTHER}\nbye"), Whole),
        (WRONG, Not),
        ("Hi <tool_call>", SoFar),
        ("Hi <tool_call>x", Not),
        ("<tool_call>\n{\"name\": \"h", Not),
        ("<tool_call>\n{\"name\": \"f\", \"arguments\": {}}", Not),
    ];
    check(None, Some(&tools(false, true)), None, &cases);
    let single =
        [("text", Whole), (CALL, Whole), (&format!("text {CALL}"), Whole), (&format!("{CALL}\n"), Not), (WRONG, Not)];
    check(None, Some(&tools(false, false)), None, &single);
}

#[test]
fn where_a_call_must_come_nothing_else_does() {
    let cases = [("", SoFar), ("H", Not), (CALL, Whole), (&format!("{CALL}\n{OTHER}\n{CALL}"), Whole), (WRONG, Not)];
    check(None, Some(&tools(true, true)), None, &cases);
    check(None, Some(&tools(true, false)), None, &[(OTHER, Whole), (&format!("{CALL}\n{OTHER}"), Not), ("H", Not)]);
}

#[test]
fn with_a_schema_an_answer_is_json_or_calls() {
    let cases = [
        ("{\"a\": 1}", Whole),
        ("{\"b\": 1}", Not),
        ("text", Not),
        (CALL, Whole),
        (&format!("{CALL}\n{OTHER}"), Whole),
    ];
    check(None, Some(&tools(false, true)), Some(&schema()), &cases);
    check(None, Some(&tools(true, true)), Some(&schema()), &[("{\"a\": 1}", Not), (CALL, Whole)]);
    check(None, None, Some(&schema()), &[("{\"a\": 1}", Whole), ("{\n  \"a\": 1\n}", Whole), ("text", Not)]);
}

#[test]
fn thoughts_come_first_and_are_free() {
    let thought = "<think>\nI could write <tool_call or { or \"\n</think>";
    let (json, call) = (format!("{thought}\n\n{{\"a\": 1}}"), format!("{thought}\n\nI call.\n{CALL}\n{OTHER}"));
    let json_cases = [
        ("{\"a\": 1}", Whole),
        (json.as_str(), Whole),
        ("<think>a</think>text", Not),
        ("<think>a", SoFar),
        ("text", Not),
    ];
    check(Some(false), None, Some(&schema()), &json_cases);
    let free = [
        ("", Whole),
        ("Hello <thin", Whole),
        (CALL, Whole),
        (&call, Whole),
        ("Hi <tool_call>x", Not),
        ("<think>a</think> <tool_call>x", Not),
        ("<think>a", SoFar),
    ];
    check(Some(false), Some(&tools(false, true)), None, &free);
    let called =
        [(CALL, Whole), (&*format!("{thought}\n\n{CALL}"), Whole), ("<think>a</think>text", Not), ("text", Not)];
    check(Some(false), Some(&tools(true, true)), None, &called);
    // Text in tags: a tag inside the thoughts is none.
    let dialect = Dialect { calls: Some(hermes(false)), thoughts: thoughts(false, false) };
    let grammar = grammar(&dialect, Some((&tools(false, true), &hermes(false))), None).unwrap();
    let mentioned = format!("<think>use <tool_call> or not</think>Hello {CALL}");
    assert_eq!(fits(&grammars(), &grammar, &tokens(&mentioned, false)), Whole);
}

#[test]
fn thoughts_may_be_open_when_the_answer_begins() {
    let cases = [
        ("so\n</think>\n\n{\"a\": 1}", Whole),
        ("</think>{\"a\": 1}", Whole),
        ("{\"a\": 1}", SoFar),
        ("</think>x", Not),
    ];
    check(Some(true), None, Some(&schema()), &cases);
    check(
        Some(true),
        Some(&tools(false, true)),
        None,
        &[("a</think>b", Whole), ("a", SoFar), ("</think><tool_call>x", Not)],
    );
}

#[test]
fn a_tag_that_is_a_token_cannot_be_spelled_by_letters() {
    let of = |thoughts| {
        let dialect = Dialect { calls: Some(hermes(true)), thoughts };
        grammar(&dialect, Some((&tools(false, true), &hermes(true))), None).unwrap()
    };
    let grammars = grammars();
    let plain = of(None);
    assert_eq!(fits(&grammars, &plain, &tokens("Hi <tool_calls", false)), Whole);
    assert_eq!(fits(&grammars, &plain, &tokens("Hi <tool_call>", false)), Not);
    assert_eq!(fits(&grammars, &plain, &tokens("Hi <tool_call>", true)), SoFar);
    for are_open in [true, false] {
        let thinking = of(thoughts(are_open, true));
        let after_opening = |text: &str, is_special| {
            let opening = if are_open { Vec::new() } else { vec![special("<think>")] };
            fits(&grammars, &thinking, &[opening, tokens(text, is_special)].concat())
        };
        assert_eq!(after_opening("a </thinks", false), SoFar);
        assert_eq!(after_opening("a </think>", false), Not, "{thinking:?}");
        assert_eq!(after_opening("a </thin</think>b", true), Whole);
    }
}

#[test]
fn a_client_has_no_say_in_how_json_is_written() {
    let mut schema = schema();
    schema["x-guidance"] = json!({"whitespace_pattern": "[a-z]*", "lenient": true});
    let json = "{\n  \"a\": 1}";
    for thinking in [None, Some(false)] {
        check(thinking, None, Some(&schema), &[(json, Whole), ("{abc\"a\": 1}", Not)]);
        check(thinking, Some(&tools(false, true)), Some(&schema), &[(json, Whole), ("{abc\"a\": 1}", Not)]);
    }
}

#[test]
fn llama_calls_with_json_and_nothing_else() {
    let call = "{\"name\": \"f\", \"parameters\": {\"x\": 1}}";
    let grammars = grammars();
    for is_special in [false, true] {
        let form = CallForm::Llama { tag: is_special.then(|| tag("<|python_tag|>", true)) };
        for thinking in [false, true] {
            let thoughts = if thinking { thoughts(false, is_special) } else { None };
            let dialect = Dialect { calls: Some(form.clone()), thoughts };
            let check = |must_call: bool, cases: &[(&str, Fits)]| {
                let grammar = grammar(&dialect, Some((&tools(must_call, true), &form)), None).unwrap();
                for (text, expected) in cases {
                    let found = fits(&grammars, &grammar, &tokens(text, is_special));
                    assert_eq!(
                        found, *expected,
                        "{text:?}, special: {is_special}, thinking: {thinking}, of\n{grammar:?}"
                    );
                }
            };
            let tagged = format!("<|python_tag|>{call}");
            let with_tag = if is_special { Whole } else { Not };
            let free = [("", Whole), ("Hi {", Whole), (call, Whole), ("{\"a\": 1}", Not), (&*format!("{call};"), Not)];
            check(false, &free);
            check(true, &[("Hi", Not), (call, Whole), (&tagged, with_tag)]);
            if thinking {
                let after = format!("<think>a</think>\n\n{call}");
                check(false, &[(&after, Whole), ("<think>a</think>\n\nHi {", Whole), ("<think>a</think>{\"a", Not)]);
            }
        }
    }
}

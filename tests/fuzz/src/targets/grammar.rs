//! The form that a client wants its output to have: compiled, and followed for some tokens.

use specfleet_grammar::{Form, Grammars, Matcher};
use specfleet_model::tokenizer::Tokenizer;

use crate::{Allowance, Answer, Decode, Target};

pub(super) const TARGET: Target =
    Target { name: "grammar", allowance: Allowance { fixed: FIXED, per_byte: PER_BYTE }, seeds, start };

/// The states of a lexer have a bound of some 40 MB. What is measured is less than one.
pub(super) const FIXED: usize = 48 << 20;
pub(super) const PER_BYTE: usize = 1024;

/// Single bytes of text, some longer tokens, and the end.
const LONGER: [&str; 6] = ["{\"", "\":", "\"}", "true", "12", "<|call|>"];
const CALL: u32 = 128 + 5;
const END: u32 = 128 + 6;
/// Tokens that a grammar is followed for.
const N_STEPS: usize = 24;

fn start() -> Decode {
    let grammars = grammars();
    Box::new(move |bytes| {
        let Some(form) = form(bytes) else { return Answer::Refused };
        match grammars.compile(&form, 1) {
            Ok(matcher) => {
                follow(matcher, bytes);
                Answer::Accepted
            }
            Err(error) => {
                assert!(error.to_string().len() < 1000, "an answer that would not fit a status: {error}");
                Answer::Refused
            }
        }
    })
}

fn grammars() -> Grammars {
    let mut tokens: Vec<Vec<u8>> = (0..128_u8).map(|byte| vec![byte]).collect();
    tokens.extend(LONGER.map(|token| token.as_bytes().to_vec()));
    tokens.push(b"<end>".to_vec());
    Tokenizer::from_bytes(tokens, &[CALL, END], &[END]).grammars(&[END]).expect("a small vocabulary")
}

/// A form as an input.
pub(super) fn input(form: &Form) -> Vec<u8> {
    let kind = match form {
        Form::JsonSchema(_) => 0,
        Form::Regex(_) => 1,
        Form::Lark(_) => 2,
    };
    [&[kind], form.source().as_bytes()].concat()
}

/// The first byte says what kind it is.
pub(super) fn form(bytes: &[u8]) -> Option<Form> {
    let (kind, source) = bytes.split_first()?;
    let source = std::str::from_utf8(source).ok()?.to_owned();
    Some(match kind % 3 {
        0 => Form::JsonSchema(source),
        1 => Form::Regex(source),
        _ => Form::Lark(source),
    })
}

/// What a mask allows can be committed, and a question about it leaves no trace.
fn follow(mut matcher: Matcher, bytes: &[u8]) {
    for step in 0..N_STEPS {
        // It may become too complex, or ask for what no token spells.
        let Ok(mask) = matcher.mask(&[]) else { return };
        let allowed: Vec<u32> = (0..=END).filter(|id| mask.allows(*id)).collect();
        let choice = bytes.get(step * 7 % bytes.len()).copied().unwrap_or_default() as usize * 31 + step;
        let Some(&token) = allowed.get(choice % allowed.len().max(1)) else { return };
        assert_eq!(matcher.n_allowed(&[token]), 1, "token {token} is allowed by the mask");
        if matcher.mask(&[token]).is_err() {
            return;
        }
        assert_eq!(matcher.mask(&[]).as_ref(), Ok(&mask), "the question about token {token} has left a trace");
        matcher.commit(token);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let schema = r##"{"type":"object","properties":{"name":{"type":"string","minLength":1,"pattern":"^[a-z]+$"},
        "age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"enum":["a",7,null]},"maxItems":3},
        "home":{"$ref":"#/$defs/home"}},"required":["name"],"additionalProperties":false,"$defs":{"home":{"anyOf":[
        {"type":"null"},{"type":"number","multipleOf":0.5},{"allOf":[{"type":"object"},{"properties":{"at":{"const":true}}}]}
        ]}}}"##;
    let lark = r#"start: greeting (" " name){1,3} call?
        greeting: "Hi" | /hello+/
        name[capture]: NAME
        NAME: /[A-Z][a-z]{1,5}/ & ~/Q.*/
        call: <|call|> %json {"type": "object", "properties": {"a": {"type": "boolean"}}}
        %ignore /\n+/
"#;
    let date = r"(\d{4}-\d{2}-\d{2}|[^x]*?y{2,}\p{Lu}?)(a|b)+";
    let schemas = [schema, "true"].map(|source| Form::JsonSchema(source.to_owned()));
    let regexes = [date, "(?i:yes|no)"].map(|source| Form::Regex(source.to_owned()));
    schemas.iter().chain(&regexes).chain([&Form::Lark(lark.to_owned())]).map(input).collect()
}

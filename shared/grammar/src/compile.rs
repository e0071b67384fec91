//! From the text of a form to a matcher at its beginning, within bounds.
//!
//! The text comes from a client, and the library that reads it recurses along brackets and along chains of rules. So brackets
//! have a bound, compiling has a thread of its own with a stack for the longest chain that a text has room for, and what
//! comes out is bounded by [`Vocabulary`]'s limits.

use std::thread;

use llguidance::api::TopLevelGrammar;
use serde_json::{Map, Value, json};

use crate::{Error, Form, MAX_FORM_BYTES, Matcher, Vocabulary, depth, error::Reason, parser::Parser};

/// Brackets within brackets: more than schemas and expressions have, and far less than fills a stack.
const MOST_DEPTH: usize = 64;

/// A chain of some ten thousand rules fits a text, and a rule takes some kilobytes of stack. Only what is used of it takes
/// memory.
const STACK_BYTES: usize = 256 << 20;

/// Where a schema does not say which white space may stand between its parts: a space, or a new line and its indentation.
/// Without a bound, a model that is unsure what comes next writes blanks until its tokens run out.
pub const WHITE_SPACE: &str = r"\x20|\x0A[\x20\x09]{0,40}";

impl Vocabulary {
    /// Compiles a form. Blocks the caller's thread for up to some hundred milliseconds.
    pub(crate) fn compile(&self, form: &Form) -> Result<Matcher, Error> {
        thread::scope(|scope| {
            let compiler = thread::Builder::new().name("grammar".into()).stack_size(STACK_BYTES);
            let compiled = compiler.spawn_scoped(scope, || self.compile_here(form)).map_err(unusable)?;
            compiled.join().unwrap_or_else(|_| Err(unusable("the compiler panicked")))
        })
    }

    fn compile_here(&self, form: &Form) -> Result<Matcher, Error> {
        let n_bytes = form.source().len();
        if n_bytes > MAX_FORM_BYTES {
            return Err(Error::TooLong { n_bytes });
        }
        let depth = depth::of(form);
        if depth > MOST_DEPTH {
            return Err(Error::TooDeep { depth, most: MOST_DEPTH });
        }
        let grammar = match form {
            Form::JsonSchema(source) => TopLevelGrammar::from_json_schema(schema(source)?),
            Form::Regex(source) => TopLevelGrammar::from_regex(source),
            Form::Lark(source) => TopLevelGrammar::from_lark(source.clone()),
        };
        let parser = self.factory.create_parser(grammar).map_err(unusable)?;
        // States are moved over draft tokens and back.
        if !parser.parser.grammar().lexer_spec().can_rollback() {
            return Err(unusable("max_tokens= and stop= of rules are not supported; suffix= is"));
        }
        let mut matcher = Matcher::new(Parser::new(parser), n_bytes, self.end_tokens.clone());
        // What cannot begin is better refused now.
        match matcher.mask(&[]) {
            Ok(mask) if mask.n_allowed() > 0 => Ok(matcher),
            Ok(_) => Err(unusable("no token can begin it")),
            Err(Error::Stuck(reason)) => Err(Error::Unusable(reason)),
            Err(error) => Err(error),
        }
    }
}

fn unusable(error: impl std::fmt::Display) -> Error {
    Error::Unusable(Reason::new(error))
}

fn schema(source: &str) -> Result<Value, Error> {
    let value: Value = serde_json::from_str(source).map_err(|error| unusable(format!("not JSON: {error}")))?;
    let mut schema = match value {
        Value::Object(schema) => schema,
        Value::Bool(true) => Map::new(),
        _ => return Err(unusable("a JSON schema is an object or true")),
    };
    schema.entry("x-guidance").or_insert_with(|| json!({ "whitespace_pattern": WHITE_SPACE }));
    Ok(Value::Object(schema))
}

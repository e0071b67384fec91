//! A grammar that nobody sent: clients of this API send schemas, of functions and of the answer, and what is wrong with the
//! grammar that is made of them has to be told by the names of these.
//!
//! Each schema stands on a line of its own, and the compiler says on which line it failed. What is wrong with all of it
//! together has no line; nor has a grammar that cannot be followed any further in the middle of an answer.

use specfleet_protocol::v1::{OutputGrammar, output_grammar::Form};

use super::{grammar::SchemaOf, response_format, tools::Tools};
use crate::error::{Error, Violation};

/// As the request's one form calls it.
const GRAMMAR: &str = "grammar";
/// The same if it is nothing but the schema of the answer.
const SCHEMA_ALONE: &str = "grammar.json_schema";

/// The fields that a grammar was made of.
#[derive(Clone, Debug)]
pub(super) struct Blame {
    /// By the number of the line where they stand, from 1.
    schemas: Vec<(usize, String)>,
    /// For whatever has no line.
    otherwise: &'static str,
}

impl Blame {
    /// Of a grammar that was made of `tools`, if there are any, and a schema of the answer, if there is one.
    pub(super) fn new(grammar: &OutputGrammar, tools: Option<&Tools>) -> Self {
        let text = match &grammar.form {
            Some(Form::Lark(text)) => text.as_str(),
            _ => "",
        };
        let field = |schema_of| match schema_of {
            SchemaOf::Answer => Some(response_format::SCHEMA.to_owned()),
            SchemaOf::Function(number) => {
                tools?.callable.get(number).map(|function| format!("tools[{}].function.parameters", function.index))
            }
        };
        let field_of_line = |(number, line)| Some((number, SchemaOf::line(line).and_then(field)?));
        Self {
            schemas: (1..).zip(text.lines()).filter_map(field_of_line).collect(),
            otherwise: if tools.is_some() { "tools" } else { "response_format" },
        }
    }

    /// The same error in terms of what the client sent.
    pub(super) fn error(&self, error: Error) -> Error {
        let Error::Invalid(violations) = error else { return error };
        Error::Invalid(violations.into_iter().map(|violation| self.violation(violation)).collect())
    }

    fn violation(&self, violation: Violation) -> Violation {
        let Violation { field, description } = violation;
        let is_grammar = field.strip_prefix(GRAMMAR).is_some_and(|part| part.is_empty() || part.starts_with('.'));
        if !is_grammar {
            return Violation { field, description };
        }
        if field == SCHEMA_ALONE {
            return Violation { field: response_format::SCHEMA.to_owned(), description };
        }
        let at_line = self.schemas.iter().find_map(|(number, field)| {
            let (before, place) = description.split_once(&format!("at {number}("))?;
            // A place in a text that the client has never seen.
            let (_column, after) = place.split_once("): ")?;
            Some(Violation { field: field.clone(), description: format!("{before}{after}") })
        });
        at_line.unwrap_or_else(|| Violation { field: self.otherwise.to_owned(), description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(field: &str, description: &str) -> (String, String) {
        let lines = "start: json\njson: %json {\"a\": \"at 1(2): \"}\nfunction_0_arguments: %json {}\n";
        let grammar = OutputGrammar { form: Some(Form::Lark(lines.to_owned())) };
        let error = Error::Invalid(vec![Violation::new(field, description)]);
        match Blame::new(&grammar, None).error(error) {
            Error::Invalid(mut violations) => {
                violations.pop().map(|only| (only.field, only.description)).unwrap_or_default()
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_failure_is_told_by_the_name_of_what_was_sent() {
        let is = |field: &str, description: &str| (field.to_owned(), description.to_owned());
        let (schema, all) = (response_format::SCHEMA, "response_format");
        assert_eq!(named("grammar.lark", "bad: at 2(7): no \"at 3(1): \""), is(schema, "bad: no \"at 3(1): \""));
        assert_eq!(named("grammar.lark", "bad: at 22(7): no"), is(all, "bad: at 22(7): no"), "not the second line");
        assert_eq!(named("grammar.json_schema", "no"), is(schema, "no"));
        assert_eq!(named("grammar", "cannot be followed"), is(all, "cannot be followed"));
        assert_eq!(named("grammars", "x"), is("grammars", "x"));
        assert_eq!(named("top_k", "at 2(7): x"), is("top_k", "at 2(7): x"));
    }
}

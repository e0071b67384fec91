//! The form that a client wants its output to have. Whether it can be compiled is for whoever compiles it.

use specfleet_grammar::{Form, MAX_FORM_BYTES};

use super::Error;
use crate::v1::{self, output_grammar};

/// Reads the grammar in `field`.
///
/// # Errors
/// If it has no form, or one that is longer than any that is compiled.
pub fn output_grammar(field: &'static str, wire: v1::OutputGrammar) -> Result<Form, Error> {
    let form = match wire.form {
        Some(output_grammar::Form::JsonSchema(source)) => Form::JsonSchema(source),
        Some(output_grammar::Form::Regex(source)) => Form::Regex(source),
        Some(output_grammar::Form::Lark(source)) => Form::Lark(source),
        None => return Err(Error::Missing { field }),
    };
    let length = form.source().len();
    if length > MAX_FORM_BYTES {
        return Err(Error::TooLong { field, length, most: MAX_FORM_BYTES });
    }
    Ok(form)
}

impl From<&Form> for v1::OutputGrammar {
    fn from(form: &Form) -> Self {
        let form = match form.clone() {
            Form::JsonSchema(source) => output_grammar::Form::JsonSchema(source),
            Form::Regex(source) => output_grammar::Form::Regex(source),
            Form::Lark(source) => output_grammar::Form::Lark(source),
        };
        Self { form: Some(form) }
    }
}

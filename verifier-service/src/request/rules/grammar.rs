//! The form of the output: compiled, or refused with the reason.

use specfleet_grammar::{Error as Refused, Form};
use specfleet_protocol::{convert::output_grammar, v1};

use super::{OutputGrammar, Rules};
use crate::error::{Error, Overload, RETRY_AFTER, Violation};

const FIELD: &str = "grammar";

/// What cannot be had together with a form.
pub(super) fn check_companions(wire: &v1::GenerateRequest, violations: &mut Vec<Violation>) {
    if wire.grammar.is_none() {
        return;
    }
    let min_tokens = wire.sampling.as_ref().map_or(0, |sampling| sampling.min_tokens);
    let companions = [
        (
            "ignore_eos",
            wire.ignore_eos,
            "is set together with grammar, whose form ends with an end token; leave out one",
        ),
        (
            "sampling.min_tokens",
            min_tokens > 0,
            "is set together with grammar, which says itself when it may end; leave out one",
        ),
    ];
    for (field, is_set, description) in companions {
        if is_set {
            violations.push(Violation::new(field, description));
        }
    }
}

impl Rules {
    /// Compiles the form for so many continuations. The only check that can take long, so it comes last.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if there is no memory for them now.
    pub(super) fn grammar(
        &self,
        wire: v1::OutputGrammar,
        n_choices: u32,
        violations: &mut Vec<Violation>,
    ) -> Result<Option<OutputGrammar>, Error> {
        let mut refuse = |field: String, description: String| violations.push(Violation::new(field, description));
        let form = match output_grammar(FIELD, wire) {
            Ok(form) => form,
            Err(error) => {
                refuse(error.field().to_owned(), error.to_string());
                return Ok(None);
            }
        };
        let n_choices = n_choices as usize;
        let grammars = self.grammars.as_ref().map_err(Clone::clone);
        match grammars.and_then(|grammars| grammars.compile(&form, n_choices)) {
            Ok(start) => Ok(Some(OutputGrammar { form, start })),
            Err(Refused::Full { n_places: most }) if n_choices > most => {
                refuse("n".to_owned(), format!("is {n_choices}, allowed: at most {most} with a grammar"));
                Ok(None)
            }
            Err(Refused::Full { n_places: n_grammars }) => {
                Err(Error::Overloaded { cause: Overload::Grammars { n_grammars }, retry_after: RETRY_AFTER })
            }
            Err(error) => {
                refuse(field_of(&form).to_owned(), error.to_string());
                Ok(None)
            }
        }
    }
}

fn field_of(form: &Form) -> &'static str {
    match form {
        Form::JsonSchema(_) => "grammar.json_schema",
        Form::Regex(_) => "grammar.regex",
        Form::Lark(_) => "grammar.lark",
    }
}

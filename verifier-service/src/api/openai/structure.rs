//! What a chat request says about the structure of its answer: which functions may be called, and which JSON is wanted.

use serde_json::Value;
use specfleet_protocol::v1::OutputGrammar;

use super::{
    body::Fields,
    failure::Failure,
    grammar::grammar,
    parts::{Calls, Sought},
    response_format,
    tools::Tools,
};
use crate::dialect::{CallForm, Dialect};

pub(super) struct Structure {
    pub(super) tools: Option<Tools>,
    /// How the model calls them.
    form: Option<CallForm>,
    schema: Option<Value>,
}

impl Structure {
    pub(super) fn read(fields: &Fields, dialect: &Dialect) -> Result<Self, Failure> {
        let tools = Tools::read(fields)?;
        let form = dialect.calls.clone().filter(|_| tools.is_some());
        if tools.is_some() && form.is_none() {
            let problem = "tools is not supported: nobody has said in which form this model calls functions; \
                           start the verifier with --tool-calls, or leave it out";
            return Err(Failure::unsupported("tools", problem.to_owned()));
        }
        let schema = response_format::schema(fields)?;
        let may_call = tools.as_ref().is_some_and(|tools| !tools.must_call);
        if schema.is_some() && may_call && matches!(form, Some(CallForm::Llama { .. })) {
            let problem = "response_format is not supported together with tools: this model's calls are JSON too, and nobody \
                           could tell them from its answer; set tool_choice to \"none\" or \"required\"";
            return Err(Failure::unsupported("response_format", problem.to_owned()));
        }
        Ok(Self { tools, form, schema })
    }

    /// The form that the answer must have, if it must have one.
    pub(super) fn grammar(&self, dialect: &Dialect) -> Option<OutputGrammar> {
        grammar(dialect, self.tools.as_ref().zip(self.form.as_ref()), self.schema.as_ref())
    }

    /// What to look for in the answer; `None` if all of it is text.
    pub(super) fn sought(&self, dialect: &Dialect) -> Option<Sought> {
        let calls = self.tools.as_ref().zip(self.form.clone()).map(|(tools, form)| {
            let names = tools.callable.iter().map(|function| function.name.clone());
            Calls { form, names: names.collect() }
        });
        let thoughts = dialect.thoughts.clone();
        (calls.is_some() || thoughts.is_some()).then_some(Sought { thoughts, calls })
    }
}

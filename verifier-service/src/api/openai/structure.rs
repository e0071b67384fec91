//! What a chat request says about the structure of its answer: which functions may be called, and which JSON is wanted.

use std::sync::Arc;

use serde_json::Value;
use specfleet_grammar::{Form, Grammars};
use specfleet_protocol::v1::OutputGrammar;

use super::{
    body::Fields,
    failure::Failure,
    grammar::grammar,
    parts::{Calls, Sought},
    response_format,
    tools::Tools,
};
use crate::{
    dialect::{CallForm, Dialect},
    service::Shared,
};

/// As the rules call it.
const GRAMMAR: &str = "grammar";

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

    /// A refusal of the grammar, with the name of the field that is to blame: the client has sent no grammar.
    pub(super) async fn blamed(self, failure: Failure, shared: &Arc<Shared>) -> Failure {
        if !failure.is_about(GRAMMAR) {
            return failure;
        }
        let for_thread = shared.clone();
        // Compiling takes long; these schemas are compiled for the second time, and one by one.
        let room = match shared.texts.room().await {
            Ok(room) => room,
            Err(error) => return error.into(),
        };
        let found = shared.texts.read(move || {
            let _room = room;
            let culprit = for_thread.rules.grammars.as_ref().ok().and_then(|grammars| self.culprit(grammars));
            culprit.unwrap_or_else(|| if self.tools.is_some() { "tools" } else { "response_format" }.to_owned())
        });
        match found.await {
            Ok(field) => failure.renamed(&field),
            Err(error) => error.into(),
        }
    }

    /// The schema that is wrong by itself.
    fn culprit(&self, grammars: &Grammars) -> Option<String> {
        let is_wrong = |schema: String| grammars.compile(&Form::JsonSchema(schema)).is_err();
        let functions = self.tools.iter().flat_map(|tools| &tools.callable);
        let mut wrong = functions.filter(|function| is_wrong(Value::Object(function.arguments.clone()).to_string()));
        let in_tools = wrong.next().map(|function| format!("tools[{}].function.parameters", function.index));
        let schema = self.schema.as_ref().filter(|_| in_tools.is_none());
        in_tools.or_else(|| {
            schema.filter(|schema| is_wrong(schema.to_string())).map(|_| response_format::SCHEMA.to_owned())
        })
    }
}

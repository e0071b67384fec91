//! Output of a given form is the target's output with everything else taken out, and it always has the form.
//!
//! Where a client asks for a form, the law at each position is the target's, masked and renormalised, whatever the draft
//! proposes and whether it knows the form or not. The state of the grammar must stand where the committed tokens stand: a
//! state that went over rejected draft tokens refuses the right ones.
//!
//! - `law`: draws through both services, against the masked law; and a bonus token without the mask is caught.
//! - `digits`: a form of four digits, and drafts that are wrong anywhere in it.
//! - `json`: objects by a schema, written by models that know nothing of JSON.
//! - `state`: equal text with speculation and without, when KV memory runs out, and in each of several continuations.

use specfleet_client::v1::{GenerateRequest, OutputGrammar, output_grammar::Form};
use specfleet_model::{checkpoint::GenerationDefaults, load::Loaded, scripted::ScriptedModel, tokenizer::Tokenizer};

mod digits;
mod json;
mod law;
mod state;

fn regex(source: &str) -> Option<OutputGrammar> {
    Some(OutputGrammar { form: Some(Form::Regex(source.to_owned())) })
}

fn of_form(grammar: Option<OutputGrammar>, request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { grammar, ..request }
}

fn loaded(model: ScriptedModel, tokenizer: &Tokenizer) -> Loaded {
    Loaded {
        model: Box::new(model),
        tokenizer: tokenizer.clone(),
        chat_template: None,
        generation: GenerationDefaults::default(),
        label: "scripted".to_owned(),
    }
}

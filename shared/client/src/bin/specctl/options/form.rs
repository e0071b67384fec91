//! Flags that say of what form the answer is.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use specfleet_client::v1::{OutputGrammar, output_grammar::Form};

/// At most one of them.
#[derive(Debug, Clone, Default, Args)]
#[group(multiple = false)]
#[command(
    next_help_heading = "Form of the answer (it always has it, unless --max-tokens or the context cuts it short)"
)]
pub(super) struct FormFlags {
    /// JSON by this schema: the schema itself, or a file that holds it. '{"type": "object"}' is any object. Tell the model
    /// too that you want JSON: it only keeps to what it may not leave.
    #[arg(long, value_name = "SCHEMA|FILE")]
    json_schema: Option<String>,
    /// A text that this regular expression matches from beginning to end, for example '(yes|no)'.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// By the grammar in this file, in llguidance's dialect of Lark.
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
}

impl FormFlags {
    pub(super) fn to_wire(&self) -> anyhow::Result<Option<OutputGrammar>> {
        let form = match (&self.json_schema, &self.regex, &self.grammar) {
            (Some(schema), _, _) if is_schema(schema) => Form::JsonSchema(schema.clone()),
            (Some(file), _, _) => Form::JsonSchema(read(Path::new(file))?),
            (_, Some(regex), _) => Form::Regex(regex.clone()),
            (_, _, Some(file)) => Form::Lark(read(file)?),
            (None, None, None) => return Ok(None),
        };
        Ok(Some(OutputGrammar { form: Some(form) }))
    }
}

/// No file is called like that.
fn is_schema(text: &str) -> bool {
    text.trim_start().starts_with('{') || text.trim() == "true"
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read the form of the answer from {}", file.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn form(flags: FormFlags) -> Option<Form> {
        flags.to_wire().unwrap().and_then(|grammar| grammar.form)
    }

    #[test]
    fn a_schema_is_given_as_it_is_or_in_a_file() {
        let schema = |text: &str| FormFlags { json_schema: Some(text.into()), ..FormFlags::default() };
        assert_eq!(form(schema(" {}")), Some(Form::JsonSchema(" {}".into())));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"type\": \"array\"}").unwrap();
        assert_eq!(form(schema(file.path().to_str().unwrap())), Some(Form::JsonSchema("{\"type\": \"array\"}".into())));
        let missing = schema("/no/such/file").to_wire().unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"), "{missing}");
    }

    #[test]
    fn without_a_flag_the_answer_has_no_form() {
        assert_eq!(form(FormFlags::default()), None);
        let regex = FormFlags { regex: Some("a+".into()), ..FormFlags::default() };
        assert_eq!(form(regex), Some(Form::Regex("a+".into())));
    }
}

//! The form of an answer: JSON of a schema, calls of functions, or free text in which a call that is begun is a call.
//!
//! A call has a name that was offered, and arguments of that function's schema: there is no other way to write one. Calls
//! are written as templates write those of earlier turns, to the space, since that is what models are tuned on. Thoughts
//! come before all of it and are free; a tag inside them means nothing.
//!
//! | asked for | Hermes, Qwen | Llama |
//! |---|---|---|
//! | tools, `auto` | text, with calls in it | text that does not begin with `{`, or a call |
//! | tools, `required` or one by name | calls, one on a line | a call |
//! | tools and a schema | calls, or JSON | refused: both are JSON |
//! | a schema | JSON | JSON |

use std::fmt::Write;

use serde_json::{Map, Value, json};
use specfleet_grammar::WHITE_SPACE;
use specfleet_protocol::v1::{OutputGrammar, output_grammar::Form};

use super::{schema::without_annotations, tools::Tools};
use crate::dialect::{CallForm, Dialect, Tag};

/// The form of an answer to what was asked; `None` if it is free.
pub(super) fn grammar(
    dialect: &Dialect,
    tools: Option<(&Tools, &CallForm)>,
    schema: Option<&Value>,
) -> Option<OutputGrammar> {
    let form = match (tools, schema) {
        (None, None) => return None,
        (None, Some(schema)) if dialect.thoughts.is_none() => Form::JsonSchema(with_spaces(schema).to_string()),
        _ => Form::Lark(Lark { dialect, rules: String::new() }.write(tools, schema)),
    };
    Some(OutputGrammar { form: Some(form) })
}

/// What a schema in a grammar is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaOf {
    /// The answer.
    Answer,
    /// The arguments of a function, by its number among those that may be called.
    Function(usize),
}

impl SchemaOf {
    /// Whose schema stands on a line of a grammar.
    pub(super) fn line(line: &str) -> Option<Self> {
        let (rule, expression) = line.split_once(": ")?;
        if !expression.starts_with(JSON) {
            return None;
        }
        match rule {
            ANSWER => Some(Self::Answer),
            rule => rule.strip_prefix(FUNCTION)?.strip_suffix(ARGUMENTS)?.parse().ok().map(Self::Function),
        }
    }
}

/// A grammar in llguidance's dialect of Lark: lower-case names are rules, upper-case ones regular expressions.
struct Lark<'a> {
    dialect: &'a Dialect,
    rules: String,
}

/// Where a schema says how it is written.
const OPTIONS: &str = "x-guidance";
/// What a rule that is a schema begins with.
const JSON: &str = "%json ";
/// The rule of an answer that is JSON.
const ANSWER: &str = "json";
/// What the names of functions' rules begin with, and those of their arguments end with.
const FUNCTION: &str = "function_";
const ARGUMENTS: &str = "_arguments";
/// Any text.
const TEXT: &str = "/(?s:.*)/";

impl Lark<'_> {
    fn write(mut self, tools: Option<(&Tools, &CallForm)>, schema: Option<&Value>) -> String {
        let answer = match (tools, schema) {
            (Some((tools, form)), None) if !tools.must_call => {
                self.free(tools, form);
                return self.rules;
            }
            (Some((tools, _)), Some(_)) if !tools.must_call => "calls | json",
            (Some(_), _) => "calls",
            (None, _) => "json",
        };
        if let Some((tools, form)) = tools {
            self.calls(tools, form);
        }
        if let Some(schema) = schema.filter(|_| answer != "calls") {
            self.rule(ANSWER, &format!("{JSON}{}", with_spaces(schema)));
        }
        self.rule("LINES", r"/\n+/");
        self.start(answer, &format!("LINES? ({answer})"));
        self.rules
    }

    /// The whole text: `first`, or thoughts and then `answer`.
    fn start(&mut self, first: &str, answer: &str) {
        let Some(thoughts) = &self.dialect.thoughts else { return self.rule("start", first) };
        let (open, close, are_open) = (thoughts.open.clone(), thoughts.close.clone(), thoughts.are_open);
        self.rule("answer", answer);
        self.rule("THOUGHT", &text_around(&close));
        match close.special {
            Some(_) => self.rule("thought", &format!("THOUGHT {}", terminal(&close))),
            None => self.rule(&format!("thought[suffix={}]", terminal(&close)), "THOUGHT"),
        }
        if are_open {
            return self.rule("start", "thought answer");
        }
        let opened = if open.special.is_some() { terminal(&open) } else { format!(r"/\s*{}/", open.text) };
        self.rule("first", first);
        self.rule("start", &format!("first | {opened} thought answer"));
    }

    /// Nothing but calls.
    fn calls(&mut self, tools: &Tools, form: &CallForm) {
        self.functions(tools, form);
        match form {
            CallForm::Hermes { open, close } => {
                self.rule("call", &format!(r#"{} "\n" function "\n" {}"#, terminal(open), terminal(close)));
                self.rule("calls", if tools.in_parallel { r#"call ("\n" call)*"# } else { "call" });
            }
            CallForm::Llama { tag } => self.rule("calls", &tagged(tag.as_ref())),
        }
    }

    /// Text, in which what begins like a call is one.
    fn free(&mut self, tools: &Tools, form: &CallForm) {
        self.functions(tools, form);
        let may_think = self.dialect.thoughts.as_ref().is_some_and(|thoughts| !thoughts.are_open);
        let first = if may_think { "FIRST" } else { "TEXT" };
        match form {
            CallForm::Hermes { open, close } => {
                self.rule("TEXT", &text_around(open));
                self.text_and_call("", "TEXT", open, close);
                if may_think {
                    self.text_and_call("first_", "FIRST", open, close);
                }
                let (call, rest) = (if may_think { "first_call" } else { "call" }, "call* TEXT");
                match tools.in_parallel {
                    true => self.start(&format!("{first} | {call} {rest}"), rest),
                    false => self.start(&format!("{first} | {call}"), "TEXT | call"),
                }
            }
            CallForm::Llama { tag } => {
                let tag = tag.as_ref();
                let text = tag.map_or(String::new(), |tag| format!("({})?", escaped(tag.text)));
                self.rule("TEXT", &format!(r"{TEXT} & ~/\s*{text}\s*\{{(?s:.*)/"));
                self.rule("LINES", r"/\n+/");
                self.start(&format!("{first} | {}", tagged(tag)), &format!("TEXT | LINES? {}", tagged(tag)));
            }
        }
        if let Some(thoughts) = self.dialect.thoughts.as_ref().filter(|_| may_think) {
            let first = format!("TEXT{}", but_not(r"\s*", &thoughts.open));
            self.rule("FIRST", &first);
        }
    }

    /// A call with text of a terminal before it.
    fn text_and_call(&mut self, prefix: &str, text: &str, open: &Tag, close: &Tag) {
        // Lazy: what follows the first tag is a call, not more text.
        let option = if open.special.is_some() { "" } else { "[lazy]" };
        self.rule(&format!("{prefix}open{option}"), &format!("{text} {}", terminal(open)));
        self.rule(&format!("{prefix}call"), &format!(r#"{prefix}open "\n" function "\n" {}"#, terminal(close)));
    }

    fn functions(&mut self, tools: &Tools, form: &CallForm) {
        let numbers = 0..tools.callable.len();
        let names: Vec<String> = numbers.map(|number| format!("{FUNCTION}{number}")).collect();
        self.rule("function", &names.join(" | "));
        for (name, function) in names.iter().zip(&tools.callable) {
            let head = format!(r#"{{"name": "{}", "{}": "#, function.name, form.arguments_key());
            self.rule(name, &format!("{} {name}{ARGUMENTS} {}", literal(&head), literal("}")));
            let arguments = with_options(&function.arguments, templates_spacing());
            self.rule(&format!("{name}{ARGUMENTS}"), &format!("{JSON}{arguments}"));
        }
    }

    fn rule(&mut self, name: &str, expression: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.rules, "{name}: {expression}");
    }
}

/// A call that may have its tag before it.
fn tagged(tag: Option<&Tag>) -> String {
    tag.map_or_else(|| "function".to_owned(), |tag| format!("{}? function", terminal(tag)))
}

fn terminal(tag: &Tag) -> String {
    tag.special.map_or_else(|| literal(tag.text), |token| format!("<[{token}]>"))
}

fn literal(text: &str) -> String {
    Value::from(text).to_string()
}

/// Any text that a tag ends. Letter by letter, a tag that is a token of its own means nothing to the model, and must not
/// to readers.
fn text_around(tag: &Tag) -> String {
    let unspelled = if tag.special.is_some() { but_not(r"(?s:.*)", tag) } else { String::new() };
    format!("{TEXT}{unspelled}")
}

/// After a terminal: none that has the tag behind `before`.
fn but_not(before: &str, tag: &Tag) -> String {
    format!(r" & ~/{before}{}(?s:.*)/", escaped(tag.text))
}

/// Inside a regular expression between slashes. Tags hold nothing else that means something there.
fn escaped(tag: &str) -> String {
    tag.replace('/', r"\/").replace('|', r"\|")
}

/// With white space as in a schema that stands alone. What a client says of it does not count: of letters for white space
/// comes no JSON.
fn with_spaces(schema: &Value) -> Value {
    match schema {
        Value::Object(schema) => with_options(schema, json!({"whitespace_pattern": WHITE_SPACE})),
        other => other.clone(),
    }
}

fn with_options(schema: &Map<String, Value>, options: Value) -> Value {
    let mut schema = without_annotations(schema);
    schema.insert(OPTIONS.to_owned(), options);
    Value::Object(schema)
}

/// As Python's `json.dumps` writes them, and with it every template.
fn templates_spacing() -> Value {
    json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "})
}

#[cfg(test)]
mod tests;

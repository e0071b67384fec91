//! Chat messages to the prompt that a model was tuned on.
//!
//! Every chat model has its own way to mark who speaks, and ships it as a Jinja template. The templates are written for
//! Python's Jinja inside the `transformers` library, so rendering has to behave as it does there: blocks swallow the
//! line break after them, strings have Python methods, JSON is spelled as Python spells it, and a template can refuse
//! messages by calling `raise_exception`.
//!
//! A template is a program, and it came with a file that somebody published. So a rendering has a budget of work, which
//! bounds its memory too, and which grows with the messages alone: a loop without end and a string that doubles itself
//! are errors.

mod clock;
mod generation;
mod hermes;
mod json;
mod message;
mod metered;
mod stack;

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, ErrorKind, Value, context};

pub use message::{ChatMessage, ToolCall};

/// The one template in the environment. Without an extension nothing is escaped.
const NAME: &str = "chat";

/// Work that a rendering may do whatever the messages are. A unit is one instruction, or 64 bytes of data: about 3 MB.
/// Published templates spend a few hundred units before the first message.
const BASE_FUEL: usize = 50_000;
/// For each message, call and tool. Published templates spend 20 to 200.
const FUEL_PER_MESSAGE: usize = 500;
/// Work for one byte of tools and of arguments of calls: some templates take these apart key by key.
const FUEL_PER_JSON_BYTE: usize = 4;
/// Bytes of messages for one unit: a template may go over each byte 32 times.
const BYTES_PER_FUEL: usize = 2;
/// Stack for one unit. A value that holds another takes three units at the least, and some 1000 bytes of stack to print.
const STACK_PER_FUEL: usize = 512;

/// Published templates have up to 30 KB.
const MOST_SOURCE_BYTES: usize = 1 << 20;
/// Stack for one byte of source: an operator is one byte and one level of the syntax tree.
const STACK_PER_SOURCE_BYTE: usize = 1024;

/// The special tokens that templates refer to by name, spelled out; empty where the model has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// `bos_token`.
    pub begin: String,
    /// `eos_token`.
    pub end: String,
}

/// A parsed template. Clones share it.
#[derive(Clone)]
pub struct ChatTemplate(Arc<Inner>);

struct Inner {
    environment: Environment<'static>,
    special: SpecialTokens,
    source: String,
    reads_tools: bool,
}

/// A template that does not parse or does not render.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The template itself is wrong.
    #[error("the chat template does not parse: {0}")]
    Parse(String),
    /// The template refused the messages, in its own words.
    #[error("the model's chat template refuses these messages: {0}")]
    Refused(String),
    /// The template failed on these messages.
    #[error("the chat template failed: {0}; send the prompt as text or token ids instead")]
    Render(String),
}

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// If it is not valid Jinja, or longer than a mebibyte.
    pub fn new(source: &str, special: SpecialTokens) -> Result<Self, Error> {
        if source.len() > MOST_SOURCE_BYTES {
            let problem = format!("it has {} bytes, expected at most {MOST_SOURCE_BYTES}", source.len());
            return Err(Error::Parse(problem));
        }
        let mut environment = Environment::new();
        environment.set_syntax(syntax()?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(metered::format);
        environment.add_filter("string", metered::to_string);
        environment.add_filter("tojson", json::to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", |format: &str| clock::format_now(format));
        let parse = || {
            environment.add_template_owned(NAME, generation::without_tags(source))?;
            let template = environment.get_template(NAME)?;
            Ok(template.undeclared_variables(false).contains("tools"))
        };
        let parsed = stack::with_stack(source.len() * STACK_PER_SOURCE_BYTE, parse).map_err(Error::Parse)?;
        let reads_tools = parsed.map_err(|error: minijinja::Error| Error::Parse(format!("{error:#}")))?;
        Ok(Self(Arc::new(Inner { environment, special, source: source.to_owned(), reads_tools })))
    }

    /// Renders a conversation. With `add_generation_prompt` the text ends where the assistant's answer begins.
    ///
    /// The text holds the begin token already where the template writes one: encode it without adding special tokens.
    ///
    /// # Errors
    /// If the template refuses the messages (an unknown role, two user turns in a row, ...), fails on them, or takes more
    /// work than any template should.
    pub fn render(&self, messages: &[ChatMessage], add_generation_prompt: bool) -> Result<String, Error> {
        self.render_with_tools(messages, &[], add_generation_prompt)
    }

    /// The same with the functions that the assistant may call, each a JSON object. A template that
    /// [does not read](Self::reads_tools) them gets them as text: in the system message, and calls and results in contents.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_with_tools(
        &self,
        messages: &[ChatMessage],
        tools: &[serde_json::Value],
        add_generation_prompt: bool,
    ) -> Result<String, Error> {
        if !self.0.reads_tools && hermes::is_needed(messages, tools) {
            return self.render_values(&hermes::in_text(messages, tools), &[], add_generation_prompt);
        }
        self.render_values(messages, tools, add_generation_prompt)
    }

    fn render_values(
        &self,
        messages: &[ChatMessage],
        tools: &[serde_json::Value],
        add_generation_prompt: bool,
    ) -> Result<String, Error> {
        let fuel = fuel(messages, tools);
        let messages: Vec<Value> = messages.iter().map(ChatMessage::to_value).collect();
        let tools = if tools.is_empty() { Value::UNDEFINED } else { Value::from(minijinja::value::Serde(tools)) };
        let values = context! {
            messages => messages,
            tools => tools,
            add_generation_prompt => add_generation_prompt,
            bos_token => self.0.special.begin.as_str(),
            eos_token => self.0.special.end.as_str(),
        };
        // Clones share the parsed template.
        let mut environment = self.0.environment.clone();
        environment.set_fuel(Some(fuel as u64));
        let render = || environment.get_template(NAME)?.render(values);
        stack::with_stack(fuel * STACK_PER_FUEL, render).map_err(Error::Render)?.map_err(failure)
    }

    /// Whether the template writes tools itself.
    pub fn reads_tools(&self) -> bool {
        self.0.reads_tools
    }

    /// The template as it was given.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The special tokens it was given.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.0.special
    }
}

fn fuel(messages: &[ChatMessage], tools: &[serde_json::Value]) -> usize {
    let n_bytes: usize = messages.iter().map(ChatMessage::n_bytes).sum();
    let calls = messages.iter().flat_map(|message| &message.tool_calls);
    let in_calls = calls.clone().map(|call| call.name.len() + call.id.len() + call.arguments.to_string().len());
    let n_json_bytes: usize = in_calls.chain(tools.iter().map(|tool| tool.to_string().len())).sum();
    let n_parts = messages.len() + calls.count() + tools.len();
    BASE_FUEL + n_parts * FUEL_PER_MESSAGE + n_bytes / BYTES_PER_FUEL + n_json_bytes * FUEL_PER_JSON_BYTE
}

/// Blocks swallow their line, as `transformers` sets it.
fn syntax() -> Result<SyntaxConfig, Error> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.map_err(|error| Error::Parse(error.to_string()))
}

/// Marks an error that the template raised on purpose.
#[derive(Debug, thiserror::Error)]
#[error("raised by the template")]
struct Raised;

fn raise_exception(message: String) -> Result<minijinja::Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message).with_source(Raised))
}

fn failure(error: minijinja::Error) -> Error {
    let raised = std::error::Error::source(&error).is_some_and(|source| source.is::<Raised>());
    match error.detail() {
        Some(message) if raised => Error::Refused(message.to_owned()),
        _ => Error::Render(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests;

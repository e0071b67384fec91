//! `tools`, `tool_choice` and `parallel_tool_calls`: which functions the model may call, and whether it has to.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{body::Fields, failure::Failure};
use crate::request::MAX_TOOLS;

const MAX_NAME_BYTES: usize = 64;

/// Functions that a request offers.
#[derive(Debug)]
pub(super) struct Tools {
    /// As the template gets them: each a JSON object.
    pub(super) described: Vec<Value>,
    /// Those that may be called.
    pub(super) callable: Vec<Function>,
    /// A call is all that the model may answer with.
    pub(super) must_call: bool,
    /// Several calls may stand in one answer.
    pub(super) in_parallel: bool,
}

/// A function that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The JSON schema of its arguments, which are an object.
    pub(super) arguments: Map<String, Value>,
    /// Where it stands in the request.
    pub(super) index: usize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wishes {
    tools: Option<Vec<Tool>>,
    tool_choice: Option<Choice>,
    parallel_tool_calls: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Tool {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Described>,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    description: Option<String>,
    parameters: Option<Map<String, Value>>,
    strict: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "tool_choice is \"none\", \"auto\", \"required\" or an object that names a function")]
enum Choice {
    Word(String),
    Named(Named),
}

#[derive(Debug, Deserialize)]
struct Named {
    #[serde(rename = "type")]
    kind: String,
    function: Option<Name>,
}

#[derive(Debug, Deserialize)]
struct Name {
    name: String,
}

impl Tools {
    /// What a request says; `None` if the model may call nothing. Functions that it must not call are not described to it
    /// either.
    pub(super) fn read(fields: &Fields) -> Result<Option<Self>, Failure> {
        let Wishes { tools, tool_choice, parallel_tool_calls } = fields.read()?;
        let tools = tools.unwrap_or_default();
        if tools.len() > MAX_TOOLS {
            return Err(Failure::invalid("tools", format!("tools has {} entries, allowed: {MAX_TOOLS}", tools.len())));
        }
        let (mut described, mut callable) = (Vec::new(), Vec::<Function>::new());
        for (index, tool) in tools.into_iter().enumerate() {
            let (value, function) = tool.read(index)?;
            if let Some(twin) = callable.iter().find(|other| other.name == function.name) {
                let problem = format!("has the name {:?}, which tools[{}] has too", function.name, twin.index);
                return Err(refused(index, ".function.name", &problem));
            }
            described.push(value);
            callable.push(function);
        }
        let must_call = match tool_choice {
            None => false,
            Some(Choice::Word(word)) => match word.as_str() {
                "auto" => false,
                "required" => true,
                "none" => return Ok(None),
                _ => return Err(bad_choice(&format!("is {word:?}"))),
            },
            Some(Choice::Named(Named { kind, function: Some(Name { name }) })) if kind == "function" => {
                callable.retain(|function| function.name == name);
                if callable.is_empty() {
                    return Err(bad_choice(&format!("names the function {name:?}, which is not among the tools")));
                }
                true
            }
            Some(Choice::Named(_)) => return Err(bad_choice("is another object")),
        };
        if callable.is_empty() {
            return if must_call { Err(bad_choice("asks for a call, but there are no tools")) } else { Ok(None) };
        }
        Ok(Some(Self { described, callable, must_call, in_parallel: parallel_tool_calls.unwrap_or(true) }))
    }
}

impl Tool {
    /// As the template gets it, and as it is called.
    fn read(self, index: usize) -> Result<(Value, Function), Failure> {
        if self.kind != "function" {
            return Err(refused(index, ".type", &format!("has the type {:?}, allowed: function", self.kind)));
        }
        let Some(Described { name, description, parameters, strict }) = self.function else {
            return Err(refused(index, ".function", "has no function"));
        };
        if !is_name(&name) {
            let problem = format!("has the name {:?}, allowed: {NAME}", crate::error::shortened(&name, MAX_NAME_BYTES));
            return Err(refused(index, ".function.name", &problem));
        }
        let kind = parameters.as_ref().and_then(|parameters| parameters.get("type"));
        if let Some(kind) = kind.filter(|kind| **kind != "object") {
            let problem = format!("has parameters of the type {kind}, allowed: \"object\"");
            return Err(refused(index, ".function.parameters", &problem));
        }
        let mut function = Map::from_iter([("name".to_owned(), json!(name))]);
        function.extend(description.map(|description| ("description".to_owned(), json!(description))));
        function.extend(parameters.clone().map(|parameters| ("parameters".to_owned(), json!(parameters))));
        let mut arguments = parameters.filter(|_| strict != Some(false)).unwrap_or_default();
        arguments.entry("type").or_insert_with(|| json!("object"));
        Ok((json!({"type": "function", "function": function}), Function { name, arguments, index }))
    }
}

/// What functions and schemas may be called.
pub(super) const NAME: &str = "1 to 64 of the characters a-z, A-Z, 0-9, _ and -";

/// Whether functions and schemas may be called so.
pub(super) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn refused(index: usize, field: &str, problem: &str) -> Failure {
    Failure::invalid(format!("tools[{index}]{field}"), format!("tools[{index}] {problem}"))
}

fn bad_choice(problem: &str) -> Failure {
    let allowed =
        "\"none\", \"auto\", \"required\", or {\"type\": \"function\", \"function\": {\"name\": ...}} of one of them";
    Failure::invalid("tool_choice", format!("tool_choice {problem}, allowed: {allowed}"))
}

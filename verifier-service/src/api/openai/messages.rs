//! `messages`, and the tools with which the template renders them.

use serde::Deserialize;
use serde_json::Value;
use specfleet_protocol::v1;

use super::{body::Fields, failure::Failure, tools::Tools};

/// Roles that templates know. Newer clients call the system's messages the developer's.
const ROLES: [(&str, &str); 5] =
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", ASSISTANT), ("tool", TOOL)];
const ASSISTANT: &str = "assistant";
const TOOL: &str = "tool";

#[derive(Debug, Deserialize)]
struct Conversation {
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
struct Message {
    role: String,
    content: Option<Content>,
    name: Option<String>,
    reasoning_content: Option<String>,
    tool_calls: Option<Vec<Call>>,
    tool_call_id: Option<String>,
    function_call: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a message's content is a string or a list of parts with a type")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Call {
    id: String,
    #[serde(rename = "type", default = "function")]
    kind: String,
    function: Called,
}

#[derive(Debug, Deserialize)]
struct Called {
    name: String,
    arguments: String,
}

fn function() -> String {
    "function".to_owned()
}

/// The prompt of a request, for the template.
pub(super) fn prompt(fields: &Fields, tools: Option<&Tools>) -> Result<v1::ChatPrompt, Failure> {
    let Conversation { messages } = fields.read()?;
    let messages = (messages.into_iter().enumerate())
        .map(|(index, message)| message.into_wire().map_err(|problem| refused(index, &problem)));
    Ok(v1::ChatPrompt {
        messages: messages.collect::<Result<_, _>>()?,
        tools: tools.map_or_else(Vec::new, |tools| tools.described.iter().map(ToString::to_string).collect()),
    })
}

fn refused(index: usize, problem: &str) -> Failure {
    Failure::invalid(format!("messages[{index}]"), format!("messages[{index}] {problem}"))
}

impl Message {
    fn into_wire(self) -> Result<v1::ChatMessage, String> {
        let Some((_, role)) = ROLES.into_iter().find(|(name, _)| *name == self.role) else {
            return Err(format!("has the role {:?}, allowed: system, developer, user, assistant, tool", self.role));
        };
        let tool_calls = self.tool_calls.unwrap_or_default();
        if !tool_calls.is_empty() && role != ASSISTANT {
            return Err(format!("has tool_calls, but is the {role}'s: only the assistant calls"));
        }
        if self.function_call.is_some() {
            return Err("has a function_call, which templates do not know: use tool_calls".to_owned());
        }
        let tool_call_id = self.tool_call_id.unwrap_or_default();
        if role == TOOL && tool_call_id.is_empty() {
            return Err("has no tool_call_id: say which call it answers".to_owned());
        }
        let content = match self.content {
            // Who calls need not say anything.
            None if !tool_calls.is_empty() => String::new(),
            None => return Err("has no content".to_owned()),
            Some(content) => content.into_text()?,
        };
        Ok(v1::ChatMessage {
            role: role.to_owned(),
            content,
            tool_calls: tool_calls.into_iter().map(Call::into_wire).collect::<Result<_, _>>()?,
            tool_call_id,
            name: self.name.unwrap_or_default(),
            reasoning_content: self.reasoning_content.unwrap_or_default(),
        })
    }
}

impl Content {
    fn into_text(self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Parts(parts) => Ok(parts.into_iter().map(Part::into_text).collect::<Result<Vec<_>, _>>()?.concat()),
        }
    }
}

impl Part {
    fn into_text(self) -> Result<String, String> {
        match (self.kind.as_str(), self.text) {
            ("text", Some(text)) => Ok(text),
            ("text", None) => Err("has a part of type text without a text".to_owned()),
            (kind, _) => Err(format!("has a part of type {kind:?}, allowed: text")),
        }
    }
}

impl Call {
    fn into_wire(self) -> Result<v1::ToolCall, String> {
        let Self { id, kind, function: Called { name, arguments } } = self;
        match kind.as_str() {
            "function" => Ok(v1::ToolCall { id, name, arguments }),
            _ => Err(format!("has a tool call of type {kind:?}, allowed: function")),
        }
    }
}

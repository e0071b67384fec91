//! A conversation as templates see it: what Python's `transformers` hands them.

use minijinja::Value;

/// One message of a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatMessage {
    /// Who speaks: "system", "user", "assistant" or "tool" in most templates.
    pub role: String,
    /// What they say.
    pub content: String,
    /// Calls that an assistant's message makes.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers; empty in others.
    pub tool_call_id: String,
    /// The speaker's own name, if there is one; of a tool's message, the function's.
    pub name: String,
    /// What an assistant thought before it spoke.
    pub reasoning_content: String,
}

/// A call of a function, as an assistant made it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Names the call, for the message with its result.
    pub id: String,
    /// The function.
    pub name: String,
    /// Usually an object.
    pub arguments: serde_json::Value,
}

impl ChatMessage {
    /// A message that only says something.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), ..Self::default() }
    }

    /// For the template. What is not there is left out, since templates ask whether a key is defined.
    pub(super) fn to_value(&self) -> Value {
        let mut fields = vec![("role", Value::from(&*self.role)), ("content", Value::from(&*self.content))];
        for (name, text) in
            [("reasoning_content", &self.reasoning_content), ("name", &self.name), ("tool_call_id", &self.tool_call_id)]
        {
            if !text.is_empty() {
                fields.push((name, Value::from(&**text)));
            }
        }
        if !self.tool_calls.is_empty() {
            fields.push(("tool_calls", self.tool_calls.iter().map(ToolCall::to_value).collect()));
        }
        Value::from_pairs(fields)
    }

    /// Texts of it, apart from its calls.
    pub(super) fn n_bytes(&self) -> usize {
        let Self { role, content, tool_calls: _, tool_call_id, name, reasoning_content } = self;
        [role, content, tool_call_id, name, reasoning_content].into_iter().map(String::len).sum()
    }
}

impl ToolCall {
    /// Templates write the arguments as JSON themselves, so they get them as a mapping.
    fn to_value(&self) -> Value {
        let function =
            [("name", Value::from(&*self.name)), ("arguments", Value::from(minijinja::value::Serde(&self.arguments)))];
        let function = Value::from_pairs(function);
        Value::from_pairs([("id", Value::from(&*self.id)), ("type", Value::from("function")), ("function", function)])
    }
}

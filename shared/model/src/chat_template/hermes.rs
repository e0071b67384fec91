//! Tools for a template that has no place for them.
//!
//! Many templates write roles and contents and nothing else. Then tools are described in the system message, and calls and
//! results stand in the contents, all in the form that Hermes and Qwen models are tuned on: a call is
//! `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, and results come back in the user's turn, each inside
//! `<tool_response>`.

use serde_json::{Value, json};

use super::{
    json,
    message::{ChatMessage, ToolCall},
};

/// The same conversation with everything about tools in the contents.
pub(super) fn in_text(messages: &[ChatMessage], tools: &[Value]) -> Vec<ChatMessage> {
    let mut told: Vec<ChatMessage> = Vec::with_capacity(messages.len() + 1);
    let mut rest = messages;
    if !tools.is_empty() {
        let (said, after) = match messages {
            [first, after @ ..] if first.role == "system" => (format!("{}\n\n", first.content), after),
            _ => (String::new(), messages),
        };
        told.push(ChatMessage::new("system", said + &description(tools)));
        rest = after;
    }
    let mut follows_result = false;
    for message in rest {
        let is_result = message.role == "tool";
        match told.last_mut() {
            // Results of one turn's calls are one turn.
            Some(last) if is_result && follows_result => {
                last.content.push('\n');
                last.content.push_str(&result(message));
            }
            _ if is_result => told.push(ChatMessage::new("user", result(message))),
            _ => told.push(with_calls(message)),
        }
        follows_result = is_result;
    }
    told
}

/// Whether a conversation holds what such a template cannot write.
pub(super) fn is_needed(messages: &[ChatMessage], tools: &[Value]) -> bool {
    !tools.is_empty() || messages.iter().any(|message| !message.tool_calls.is_empty() || message.role == "tool")
}

fn description(tools: &[Value]) -> String {
    let tools: Vec<String> = tools.iter().map(json::to_text).collect();
    format!(
        "You can call functions. Between <tools> and </tools> each line describes one of them in JSON:\n\
         <tools>\n{}\n</tools>\n\n\
         To call a function, write its name and its arguments as JSON between <tool_call> and </tool_call>:\n\
         <tool_call>\n{{\"name\": \"the function's name\", \"arguments\": {{\"an argument\": \"its value\"}}}}\n</tool_call>\n\
         What it returns comes between <tool_response> and </tool_response>.",
        tools.join("\n")
    )
}

fn with_calls(message: &ChatMessage) -> ChatMessage {
    let content = [message.content.clone()].into_iter().filter(|content| !content.is_empty());
    let parts: Vec<String> = content.chain(message.tool_calls.iter().map(call)).collect();
    ChatMessage { content: parts.join("\n"), tool_calls: Vec::new(), ..message.clone() }
}

fn call(ToolCall { name, arguments, .. }: &ToolCall) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json::to_text(&json!({"name": name, "arguments": arguments})))
}

fn result(message: &ChatMessage) -> String {
    format!("<tool_response>\n{}\n</tool_response>", message.content)
}

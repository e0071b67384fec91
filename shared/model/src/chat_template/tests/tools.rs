//! Tools, calls and results: in templates that write them, and in those that do not.

use serde_json::{Value, json};

use super::{CHATML, ChatMessage, ToolCall, messages, template};

/// Qwen's way, shortened.
const QWEN: &str = "{%- if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {%- if messages[0]['role'] == 'system' %}\n        \
    {{- messages[0]['content'] + '\\n' }}\n    {%- endif %}\n    {%- for tool in tools %}\n        {{- tool | tojson }}\n    \
    {%- endfor %}\n    {{- '<|im_end|>\\n' }}\n{%- endif %}\n{%- for message in messages %}\n    \
    {%- if message.role == 'user' %}\n        {{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}\n    \
    {%- elif message.role == 'assistant' %}\n        {{- '<|im_start|>assistant' }}\n        {%- if message.content %}\n            \
    {{- '\\n' + message.content }}\n        {%- endif %}\n        {%- for tool_call in message.tool_calls %}\n            \
    {%- if tool_call.function is defined %}\n                {%- set tool_call = tool_call.function %}\n            {%- endif %}\n            \
    {{- '\\n<tool_call>\\n{\"name\": \"' + tool_call.name + '\", \"arguments\": ' }}\n            \
    {{- tool_call.arguments | tojson }}\n            {{- '}\\n</tool_call>' }}\n        {%- endfor %}\n        {{- '<|im_end|>\\n' }}\n    \
    {%- elif message.role == 'tool' %}\n        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}\n            \
    {{- '<|im_start|>user' }}\n        {%- endif %}\n        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}\n        \
    {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}\n            {{- '<|im_end|>\\n' }}\n        {%- endif %}\n    \
    {%- endif %}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";

fn tools() -> Vec<Value> {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    vec![
        json!({"type": "function", "function": {"name": "weather", "description": "Tells <it>.", "parameters": parameters}}),
        json!({"type": "function", "function": {"name": "now"}}),
    ]
}

/// A user, two calls, their results, an answer.
fn turns() -> Vec<ChatMessage> {
    let call = |id: &str, name: &str, arguments| ToolCall { id: id.into(), name: name.into(), arguments };
    let tool_calls = vec![call("1", "weather", json!({"city": "Zürich"})), call("2", "now", json!({}))];
    let calling = ChatMessage { tool_calls, ..ChatMessage::new("assistant", "") };
    let result = |id: &str, content: &str| ChatMessage { tool_call_id: id.into(), ..ChatMessage::new("tool", content) };
    let said = messages(&[("user", "Will it rain?"), ("assistant", "No.")]);
    let [asked, answered] = &said[..] else { unreachable!("two") };
    vec![asked.clone(), calling, result("1", "Sunny."), result("2", "Noon."), answered.clone()]
}

const CALLS: &str = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>\n\
                     <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
const RESULTS: &str = "<tool_response>\nSunny.\n</tool_response>\n<tool_response>\nNoon.\n</tool_response>";

#[test]
fn a_template_that_reads_tools_gets_them_as_it_would_in_python() {
    let template = template(QWEN);
    assert!(template.reads_tools());
    let text = template.render_with_tools(&turns(), &tools(), true).unwrap();
    let expected = format!(
        "<|im_start|>system\n{{\"type\": \"function\", \"function\": {{\"name\": \"weather\", \"description\": \"Tells <it>.\", \
         \"parameters\": {{\"type\": \"object\", \"properties\": {{\"city\": {{\"type\": \"string\"}}}}}}}}}}\
         {{\"type\": \"function\", \"function\": {{\"name\": \"now\"}}}}<|im_end|>\n\
         <|im_start|>user\nWill it rain?<|im_end|>\n<|im_start|>assistant\n{CALLS}<|im_end|>\n\
         <|im_start|>user\n{RESULTS}<|im_end|>\n<|im_start|>assistant\nNo.<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(text, expected);
    let without = template.render(&messages(&[("user", "Hi")]), false).unwrap();
    assert_eq!(without, "<|im_start|>user\nHi<|im_end|>\n");
}

#[test]
fn a_template_without_a_place_for_tools_gets_them_as_text() {
    let template = template(CHATML);
    assert!(!template.reads_tools());
    let text = template.render_with_tools(&turns(), &tools(), false).unwrap();
    let (system, rest) = text.split_once("<|im_end|>\n").unwrap();
    assert!(system.starts_with("<|im_start|>system\nYou can call functions."), "{system}");
    let lines = "<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"description\": \"Tells <it>.\", \
                 \"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}}}\n\
                 {\"type\": \"function\", \"function\": {\"name\": \"now\"}}\n</tools>";
    assert!(system.contains(lines), "{system}");
    let expected = format!(
        "<|im_start|>user\nWill it rain?<|im_end|>\n<|im_start|>assistant\n{CALLS}<|im_end|>\n\
         <|im_start|>user\n{RESULTS}<|im_end|>\n<|im_start|>assistant\nNo.<|im_end|>\n"
    );
    assert_eq!(rest, expected);
}

#[test]
fn a_system_message_and_an_answer_beside_calls_keep_their_words() {
    let mut said = messages(&[("system", "Be brief."), ("assistant", "One moment.")]);
    said[1].tool_calls.push(ToolCall { id: "1".into(), name: "now".into(), arguments: json!({}) });
    let text = template(CHATML).render_with_tools(&said, &tools(), false).unwrap();
    assert!(text.starts_with("<|im_start|>system\nBe brief.\n\nYou can call functions."), "{text}");
    let call = "One moment.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call><|im_end|>\n";
    assert!(text.ends_with(call), "{text}");
    let untold = template(CHATML).render(&said, false).unwrap();
    assert!(untold.starts_with("<|im_start|>system\nBe brief.<|im_end|>"), "no tools, no description: {untold}");
}

/// Whether a name is read, not whether it is mentioned.
#[test]
fn a_template_reads_tools_if_it_uses_what_the_caller_gives() {
    let llama = "{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}\
                 {%- if not tools is defined %}{%- set tools = none %}{%- endif %}{%- if tools is not none %}x{%- endif %}";
    assert!(template(llama).reads_tools());
    assert!(template("{% macro m() %}{{ tools | length }}{% endmacro %}{{ m() }}").reads_tools());
    assert!(!template("{# tools #}tools {{ messages[0].tools }}{% set tools = [] %}{{ tools }}").reads_tools());
}

#[test]
fn what_a_message_does_not_have_is_not_defined() {
    let source = "{% for m in messages %}{{ m.tool_calls is defined }} {{ m.name is defined }} {{ m.tool_call_id is defined }} \
                  {{ m.reasoning_content }}|{% endfor %}";
    let thought = ChatMessage { reasoning_content: "hm".into(), name: "Al".into(), ..ChatMessage::new("user", "Hi") };
    let with_tools = format!("{source}{{% if tools %}}{{% endif %}}");
    let text = template(&with_tools).render(&[thought, turns()[2].clone()], false).unwrap();
    assert_eq!(text, "False True False hm|False False True |");
}

#[test]
fn many_tools_have_a_budget_to_match() {
    let parameters: serde_json::Map<_, _> = (0..200)
        .map(|index| (format!("argument_{index}"), json!({"type": "string", "description": "what it is"})))
        .collect();
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": parameters}});
    let tools = vec![json!({"type": "function", "function": function}); 20];
    let by_key = "{% for tool in tools %}{% for name, more in tool.function.parameters.properties.items() %}\
                  {{ name + ': ' + more.type + (' (' + more.description + ')' if more.description else '') }}\n\
                  {% endfor %}{% endfor %}";
    let text = template(by_key).render_with_tools(&messages(&[("user", "Hi")]), &tools, false).unwrap();
    assert_eq!(text.lines().count(), 4000);
}

#![allow(clippy::unwrap_used)]

use super::*;

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, SpecialTokens { begin: "<s>".into(), end: "</s>".into() }).unwrap()
}

fn messages(turns: &[(&str, &str)]) -> Vec<ChatMessage> {
    turns.iter().map(|(role, content)| ChatMessage { role: (*role).into(), content: (*content).into() }).collect()
}

/// SmolLM2's way: ChatML with a default system message.
const CHATML: &str = "{% for message in messages %}\
    {% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe helpful.<|im_end|>\n' }}{% endif %}\
    {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
    {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

#[test]
fn chatml_adds_a_system_message_once() {
    let template = template(CHATML);
    let text = template.render(&messages(&[("user", "Hi <b>&"), ("assistant", "Hello")]), true).unwrap();
    let expected = "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nHi <b>&<|im_end|>\n\
                    <|im_start|>assistant\nHello<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(text, expected);
    let text = template.render(&messages(&[("system", "Be brief."), ("user", "Hi")]), false).unwrap();
    assert_eq!(text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

#[test]
fn llama3_style_blocks_trim_and_dates() {
    let template = template(
        "{{- bos_token }}\n\
         {%- if messages[0]['role'] == 'system' %}\n    {%- set system = messages[0]['content'].strip() %}\n    \
         {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system = '' %}\n{%- endif %}\n\
         {{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' + strftime_now('%Y')|length|string + '\\n\\n' }}\n\
         {{- system + '<|eot_id|>' }}\n\
         {%- for message in messages %}\n    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' }}\n    \
         {{- message['content'] | trim + '<|eot_id|>' }}\n{%- endfor %}\n\
         {%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n{%- endif %}\n",
    );
    let text = template.render(&messages(&[("system", " Rules \n"), ("user", " Hi ")]), true).unwrap();
    let expected = "<s><|start_header_id|>system<|end_header_id|>\n\nToday Date: 4\n\nRules<|eot_id|>\
                    <|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>\
                    <|start_header_id|>assistant<|end_header_id|>\n\n";
    assert_eq!(text, expected);
}

#[test]
fn qwen_style_namespaces_methods_and_macros() {
    let template = template(
        "{%- set ns = namespace(last=-1) %}\n{%- for m in messages %}\n    {%- if m.role == \"user\" and not \
         (m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}\n        {%- set ns.last = loop.index0 %}\n    \
         {%- endif %}\n{%- endfor %}\n{%- for m in messages %}\n    {%- set content = m.content %}\n    \
         {%- if '</think>' in content %}\n        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n    \
         {%- endif %}\n    {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}\n{%- endfor %}\n\
         {%- if tools is defined %}{{ 'tools' }}{% endif %}{{- ns.last }}",
    );
    let text = template
        .render(
            &messages(&[("user", "Hi"), ("assistant", "<think>hm</think>\n\nYes"), ("user", "<tool>x</tool>")]),
            true,
        )
        .unwrap();
    let expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n\
                    <|im_start|>user\n<tool>x</tool><|im_end|>\n0";
    assert_eq!(text, expected);
}

#[test]
fn blocks_swallow_their_line_as_in_transformers() {
    let template =
        template("{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n");
    assert_eq!(template.render(&messages(&[("user", "a"), ("user", "b")]), false).unwrap(), "a\nb\n");
}

#[test]
fn generation_tags_do_nothing_but_keep_their_whitespace_markers() {
    let template = template("a {%- generation %} b {% endgeneration -%} c{% if 'generation' %} d{% endif %}");
    assert_eq!(template.render(&[], false).unwrap(), "a b c d");
}

#[test]
fn json_is_spelled_as_python_spells_it() {
    let template = template("{{ messages | tojson }}|{{ [1, 'é<'] | tojson(indent=2) }}");
    let text = template.render(&messages(&[("user", "<a & 'b'>")]), false).unwrap();
    assert_eq!(text, "[{\"role\": \"user\", \"content\": \"<a & 'b'>\"}]|[\n  1,\n  \"é<\"\n]");
}

#[test]
fn a_refusal_keeps_the_templates_words() {
    let template =
        template("{% if messages[0].role != 'user' %}{{ raise_exception('Begin with the user!') }}{% endif %}");
    let error = template.render(&messages(&[("assistant", "Hi")]), true).unwrap_err();
    assert!(matches!(&error, Error::Refused(message) if message == "Begin with the user!"), "{error}");
}

#[test]
fn failures_are_errors_and_say_what() {
    let parse = ChatTemplate::new("{% for %}", SpecialTokens::default()).err().unwrap();
    assert!(matches!(parse, Error::Parse(_)));
    let render = template("{{ messages[0].content.unknown_method() }}").render(&messages(&[("user", "x")]), true);
    assert!(matches!(render.unwrap_err(), Error::Render(text) if text.contains("unknown_method")));
}

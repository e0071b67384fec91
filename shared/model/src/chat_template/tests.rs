#![allow(clippy::unwrap_used)]

use super::*;

mod tools;

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, SpecialTokens { begin: "<s>".into(), end: "</s>".into() }).unwrap()
}

fn messages(turns: &[(&str, &str)]) -> Vec<ChatMessage> {
    turns.iter().map(|(role, content)| ChatMessage::new(*role, *content)).collect()
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
fn a_tag_whose_ends_overlap_is_no_fault() {
    assert_eq!(generation::without_tags("a{%}b{% generation %}c"), "a{%}b{% generation %}c");
    assert_eq!(generation::without_tags("{%%}{%}"), "{%%}{%}");
    assert!(matches!(ChatTemplate::new("{%}", SpecialTokens::default()), Err(Error::Parse(_))));
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

/// Programs that would run or grow for ever.
#[test]
fn a_hostile_template_is_stopped() {
    let endless = [
        (
            "loops in loops",
            "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
        ),
        (
            "a string that doubles",
            "{% set ns = namespace(s='ab') %}{% for _ in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        ),
        (
            "text out of shared lists",
            "{% set ns = namespace(l=[0]) %}{% for _ in range(64) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        ),
        (
            "a string out of shared lists",
            "{% set ns = namespace(l=[0]) %}{% for _ in range(64) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | string }}{{ 'x' ~ ns.l }}",
        ),
        (
            "JSON out of shared lists",
            "{% set ns = namespace(l=[0]) %}{% for _ in range(64) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
        ),
        (
            "lists in lists",
            "{% set ns = namespace(l=[]) %}{% for _ in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ messages[99].x }}",
        ),
        (
            "lists in lists in text",
            "{% set ns = namespace(l=[]) %}{% for _ in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}{{ messages[99].x }}",
        ),
        (
            "lists in lists in JSON",
            "{% set ns = namespace(l=[]) %}{% for _ in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}{{ messages[99].x }}",
        ),
        ("a great repetition", "{{ 'ab' * 999999999999 }}"),
        ("long for short", "{{ ('a' * 99999).replace('a', 'b' * 99999) }}"),
        ("a wide column", "{{ '%999999999d' | format(1) }}"),
        ("a macro that calls itself", "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"),
        (
            "output in a loop",
            "{% for a in range(99999) %}{% for b in range(99999) %}{{ messages }}{% endfor %}{% endfor %}",
        ),
    ];
    for (name, source) in endless {
        let started = std::time::Instant::now();
        let rendered = template(source).render(&messages(&[("user", "Hi")]), true);
        assert!(matches!(rendered, Err(Error::Render(_))), "{name}: {:?} bytes", rendered.map(|text| text.len()));
        assert!(started.elapsed().as_secs() < 10, "{name} took {:?}", started.elapsed());
    }
}

/// Each operator is a level of the syntax tree.
#[test]
fn a_long_chain_of_operators_is_no_deep_recursion_of_the_caller() {
    for source in [
        format!("{{{{ 1{} }}}}", "+1".repeat(100_000)),
        format!("{{{{ 'a'{} }}}}", "|e".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "-".repeat(100_000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(100_000)),
        format!("{}{}", "{% if a %}".repeat(20_000), "{% endif %}".repeat(20_000)),
    ] {
        // Whether it is accepted is the engine's business.
        let _ = ChatTemplate::new(&source, SpecialTokens::default()).map(|template| template.render(&[], false));
    }
    let long = ChatTemplate::new(&"a".repeat(2 << 20), SpecialTokens::default()).err().unwrap().to_string();
    assert!(long.contains("2097152 bytes"), "{long}");
}

#[test]
fn a_long_conversation_has_a_budget_to_match() {
    let turn = "word ".repeat(200_000);
    let one_long = template(CHATML).render(&messages(&[("user", turn.as_str()); 8]), true).unwrap();
    assert!(one_long.len() > 8 * turn.len());
    let many_short = template(CHATML).render(&messages(&[("user", "a"); 50_000]), true).unwrap();
    assert_eq!(many_short.matches("<|im_start|>user").count(), 50_000);
}

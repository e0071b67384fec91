#![allow(clippy::unwrap_used)]

use specfleet_model::chat_template::SpecialTokens;

use super::*;

const CHATML: &str = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}";

/// With a vocabulary of these words, the first `n_special` of which are special.
fn dialect(template: &str, words: &[&str], n_special: u32) -> Dialect {
    let tokenizer = Tokenizer::from_bytes(
        words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        &(0..n_special).collect::<Vec<_>>(),
        &[],
    );
    let template = ChatTemplate::new(template, SpecialTokens::default()).unwrap();
    Dialect::of_model(ToolCalls::Auto, Reasoning::Auto, &tokenizer, Some(&template))
}

#[test]
fn a_template_without_a_place_for_tools_gets_them_in_the_hermes_form() {
    assert_eq!(dialect(CHATML, &["a"], 0).to_string(), "tool calls: hermes, reasoning: none");
    assert_eq!(dialect(CHATML, &[PYTHON_TAG], 1).to_string(), "tool calls: hermes, reasoning: none");
}

#[test]
fn the_form_of_calls_is_that_of_the_template() {
    let qwen = dialect("{% if tools %}<tool_call>{% endif %}", &[OPEN_CALL, CLOSE_CALL, PYTHON_TAG], 3);
    assert_eq!(qwen.to_string(), "tool calls: hermes, reasoning: none");
    assert_eq!(qwen.special_tokens(), [0, 1]);
    let llama = dialect("{% if tools is not none %}JSON!{% endif %}", &["a", PYTHON_TAG], 2);
    assert_eq!((llama.to_string().as_str(), llama.special_tokens()), ("tool calls: llama, reasoning: none", vec![1]));
    let untagged = dialect("{% if tools %}<|python_tag|>{% endif %}", &["a"], 0);
    assert_eq!(untagged.calls, Some(CallForm::Llama { tag: None }));
    assert_eq!(dialect("{{ tools }}[TOOL_CALLS]", &["a"], 0).calls, None);
}

#[test]
fn thoughts_are_shown_by_the_template_or_the_vocabulary_and_may_be_open_at_the_start() {
    assert!(!dialect(CHATML, &[OPEN_THOUGHT], 0).thoughts.unwrap().are_open);
    let template = "{{ messages[0].content.split('</think>')[-1] }}{% if add_generation_prompt %}<think>\n{% endif %}";
    let thoughts = dialect(template, &[OPEN_THOUGHT, CLOSE_THOUGHT], 1).thoughts.unwrap();
    assert!(thoughts.are_open);
    assert_eq!((thoughts.open.special, thoughts.close.special), (Some(0), None));
}

#[test]
fn what_is_set_counts_more_than_what_is_shown() {
    let tokenizer = Tokenizer::from_bytes(vec![b"a".to_vec(), OPEN_THOUGHT.as_bytes().to_vec()], &[], &[]);
    let set = |calls, reasoning| Dialect::of_model(calls, reasoning, &tokenizer, None).to_string();
    assert_eq!(set(ToolCalls::Llama, Reasoning::None), "tool calls: llama, reasoning: none");
    assert_eq!(set(ToolCalls::None, Reasoning::Think), "tool calls: none, reasoning: think");
    assert_eq!(set(ToolCalls::Hermes, Reasoning::Auto), "tool calls: hermes, reasoning: think");
}

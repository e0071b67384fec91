#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::dialect::Tag;

fn tag(text: &'static str) -> Tag {
    Tag { text, special: None }
}

fn thoughts(are_open: bool) -> Option<Thoughts> {
    Some(Thoughts { open: tag("<think>"), close: tag("</think>"), are_open })
}

fn hermes() -> Option<Calls> {
    let form = CallForm::Hermes { open: tag("<tool_call>"), close: tag("</tool_call>") };
    Some(Calls { form, names: vec!["f".to_owned(), "fg".to_owned()] })
}

fn llama() -> Option<Calls> {
    let form = CallForm::Llama { tag: Some(tag("<|python_tag|>")) };
    Some(Calls { form, names: vec!["f".to_owned(), "fg".to_owned()] })
}

/// What a text yields that arrives in these pieces, and whether it ended with whole calls.
fn split<'a>(sought: &Sought, pieces: impl IntoIterator<Item = &'a str>) -> (Parts, bool) {
    let mut splitter = Splitter::new(Arc::new(sought.clone()));
    let mut parts = Parts::default();
    for piece in pieces {
        parts.extend(splitter.push(piece));
    }
    parts.extend(splitter.finish());
    (parts, splitter.has_called())
}

fn parts(thoughts: &str, text: &str, calls: &[(&str, &str)]) -> Parts {
    let call = |(index, (name, arguments)): (usize, &(&str, &str))| CallPiece {
        index,
        name: Some((*name).to_owned()),
        arguments: (*arguments).to_owned(),
    };
    let calls = calls.iter().enumerate().map(call).collect();
    Parts { thoughts: thoughts.to_owned(), text: text.to_owned(), calls }
}

/// The text in pieces of `size` characters.
fn pieces(text: &str, size: usize) -> Vec<&str> {
    let mut starts: Vec<usize> = text.char_indices().map(|(index, _)| index).step_by(size).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

const TEXTS: &[&str] = &[
    "",
    "plain, with <b>tags</b> and {\"name\": \"f\"}\n\n",
    "<think>ab</think>hi<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>\
     <tool_call>{\"name\":\"fg\",\"arguments\":{\"x\":2}}</tool_call>",
    "<think>\nlet me <tool_call> see\n</think>\n\nOne moment.\n<tool_call>\n{\"name\": \"f\", \"arguments\": \
     {\"x\": \"}\\\"]</tool_call>\\\\\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"fg\", \"arguments\": {}}\n</tool_call>",
    "\n <think></think>\n\n\nhé<tool_call>\n{\"name\": \"h\", \"arguments\": {}}</tool_call>",
    "<tool_call><tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [{}, \"é🦀\"]}} </tool_call>\n\nand\n",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"b\": 2}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"argum",
    "<tool_call>{\"name\": \"f\", \"arguments\": 7}</tool_call>",
    "<think>never ends <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
    "<thinking>\n</thinking",
    "{\"name\": \"fg\", \"parameters\": {\"x\": [1, 2]}}",
    "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}",
    "<think>so</think>\n\n<|python_tag|>\n{ \"name\" : \"f\" , \"parameters\" : {} }",
    "<|python_tag|>print(1)",
    "  {\"name\": \"f\", \"parameters\": \"none\"}",
];

fn every_sought() -> Vec<Sought> {
    let mut all = Vec::new();
    for thoughts in [None, thoughts(false), thoughts(true)] {
        for calls in [None, hermes(), llama()] {
            all.push(Sought { thoughts: thoughts.clone(), calls });
        }
    }
    all
}

#[test]
fn thoughts_text_and_calls_are_told_apart_whatever_the_size_of_the_pieces() {
    let sought = Sought { thoughts: thoughts(false), calls: hermes() };
    let expected = [
        (2, parts("ab", "hi", &[("f", "{\"x\":1}"), ("fg", "{\"x\":2}")])),
        (
            3,
            parts(
                "let me <tool_call> see",
                "One moment.",
                &[("f", "{\"x\": \"}\\\"]</tool_call>\\\\\"}"), ("fg", "{}")],
            ),
        ),
    ];
    for (index, expected) in expected {
        let text = TEXTS[index];
        for size in 1..=text.len() {
            assert_eq!(split(&sought, pieces(text, size)), (expected.clone(), true), "{text} by {size}");
        }
    }
}

#[test]
fn no_cut_changes_what_any_text_yields() {
    for sought in every_sought() {
        for text in TEXTS {
            let whole = split(&sought, [*text]);
            for size in 1..=text.len() {
                assert_eq!(split(&sought, pieces(text, size)), whole, "{sought:?}: {text} by {size}");
            }
        }
    }
}

#[test]
fn what_only_looks_like_a_call_stays_text() {
    let hermes = Sought { thoughts: thoughts(false), calls: hermes() };
    for (index, text) in [
        (1, TEXTS[1]),
        (4, "hé<tool_call>\n{\"name\": \"h\", \"arguments\": {}}</tool_call>"),
        (9, TEXTS[9]),
        (10, TEXTS[10]),
        (12, TEXTS[12]),
        (13, TEXTS[13]),
    ] {
        assert_eq!(split(&hermes, [TEXTS[index]]), (parts("", text, &[]), false));
    }
    let llama = Sought { thoughts: None, calls: llama() };
    for index in [1, 2, 16, 17] {
        assert_eq!(split(&llama, [TEXTS[index]]), (parts("", TEXTS[index], &[]), false));
    }
}

#[test]
fn text_between_and_behind_calls_is_kept() {
    let sought = Sought { thoughts: None, calls: hermes() };
    let call = ("f", "{\"a\": [{}, \"é🦀\"]}");
    assert_eq!(split(&sought, [TEXTS[5]]).0, parts("", "<tool_call>\n\nand\n", &[call]));
    assert_eq!(split(&sought, [TEXTS[8]]).0, parts("", ", \"b\": 2}</tool_call>", &[("f", "{\"a\": 1}")]));
}

#[test]
fn a_call_that_is_cut_short_is_no_whole_call() {
    let sought = Sought { thoughts: None, calls: hermes() };
    assert_eq!(split(&sought, [TEXTS[6]]), (parts("", "", &[("f", "{\"a\": 1")]), false));
    assert_eq!(split(&sought, [TEXTS[7]]), (parts("", "", &[("f", "{\"a\": 1}")]), true));
    let unsure = Sought { thoughts: thoughts(false), calls: hermes() };
    assert_eq!(split(&unsure, [TEXTS[11]]), (parts(&TEXTS[11]["<think>".len()..], "", &[]), false));
}

#[test]
fn an_answer_of_llama_is_one_call_or_text() {
    let sought = Sought { thoughts: thoughts(false), calls: llama() };
    assert_eq!(split(&sought, [TEXTS[13]]), (parts("", "", &[("fg", "{\"x\": [1, 2]}")]), true));
    assert_eq!(split(&sought, [TEXTS[14]]).0, parts("", "; {\"name\": \"f\", \"parameters\": {}}", &[("f", "{}")]));
    assert_eq!(split(&sought, [TEXTS[15]]), (parts("so", "", &[("f", "{}")]), true));
}

#[test]
fn without_tools_nothing_is_a_call() {
    let sought = Sought { thoughts: thoughts(true), calls: None };
    let call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let text = format!("\nhm\n</think>\n\n{call}");
    assert_eq!(split(&sought, [text.as_str()]), (parts("hm", call, &[]), false));
}

#[test]
fn thoughts_are_counted_in_tokens_up_to_their_end() {
    let count = |are_open, pieces: &[&str]| {
        let mut splitter = Splitter::new(Arc::new(Sought { thoughts: thoughts(are_open), calls: None }));
        pieces.iter().for_each(|piece| drop(splitter.push(piece)));
        splitter.finish();
        splitter.n_thought()
    };
    assert_eq!(count(false, &["<think>", "a", "b", "</think>", "c", ""]), 4);
    assert_eq!(count(false, &["<th", "ink>a</thi", "nk>", "c"]), 3);
    assert_eq!(count(true, &["a", "</think>", "c"]), 2);
    assert_eq!(count(false, &["<think>", "a", ""]), 3, "without an end all of it");
    assert_eq!(count(false, &["a", "b"]), 0);
}

#[test]
fn only_what_may_become_a_tag_is_held_back() {
    let mut splitter = Splitter::new(Arc::new(Sought { thoughts: None, calls: hermes() }));
    let mut text = |piece: &str| splitter.push(piece).text;
    assert_eq!(text("a"), "a");
    assert_eq!(text("b<"), "b");
    assert_eq!(text("c"), "<c");
    assert_eq!(text("\n<tool_c"), "");
    assert_eq!(text("ool"), "\n<tool_cool");
}

#[test]
fn arguments_leave_as_they_come() {
    let mut splitter = Splitter::new(Arc::new(Sought { thoughts: None, calls: hermes() }));
    assert!(splitter.push("<tool_call>\n{\"name\": \"f\"").is_empty());
    let named = splitter.push(", \"arguments\": {").calls;
    assert_eq!(named, [CallPiece { index: 0, name: Some("f".to_owned()), arguments: "{".to_owned() }]);
    let more = splitter.push("\"a\"").calls;
    assert_eq!(more, [CallPiece { index: 0, name: None, arguments: "\"a\"".to_owned() }]);
}

proptest! {
    /// Any text made of what matters here, cut anywhere, yields the same, and nothing is lost but tags and line breaks.
    #[test]
    fn random_texts_in_random_pieces(
        words in prop::collection::vec(
            prop::sample::select(vec![
                "<think>", "</think>", "<tool_call>", "</tool_call>", "<|python_tag|>", "\n", "a", "é", "{", "}", "\"", "\\",
                "{\"name\": \"f\", \"arguments\": ", "{\"name\": \"f\", \"parameters\": ", "{\"x\": 1}", "<", "tool", " ",
            ]),
            0..24,
        ),
        cuts in prop::collection::vec(1usize..9, 0..60),
        which in 0usize..9,
    ) {
        let text = words.concat();
        let sought = every_sought().swap_remove(which);
        let mut starts = vec![0];
        for cut in cuts {
            let next = text.ceil_char_boundary(starts[starts.len() - 1] + cut);
            if next >= text.len() { break; }
            starts.push(next);
        }
        starts.push(text.len());
        let cut = split(&sought, starts.windows(2).map(|pair| &text[pair[0]..pair[1]]));
        let whole = split(&sought, [text.as_str()]);
        prop_assert_eq!(&cut, &whole);
        let kept: usize = whole.0.calls.iter().map(|call| call.arguments.len()).sum::<usize>()
            + whole.0.text.len() + whole.0.thoughts.len();
        prop_assert!(kept <= text.len());
        if which == 0 {
            prop_assert_eq!(whole.0, parts("", &text, &[]));
        }
    }
}

//! Prompts for commands that compare plain and speculative decoding.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// One line of a prompt file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prompt {
    pub(crate) id: String,
    /// "chat", "code", "summary", "list": how well a draft guesses depends on it.
    pub(crate) kind: String,
    /// The user message of a chat.
    pub(crate) prompt: String,
}

/// Those in `file`, or the set in this package.
pub(crate) fn from(file: Option<&Path>) -> anyhow::Result<Vec<Prompt>> {
    file.map_or_else(built_in, load)
}

/// The set in this package: fixed, so that figures can be compared.
fn built_in() -> anyhow::Result<Vec<Prompt>> {
    parse(include_str!("../../../prompts/bench.jsonl")).context("the built-in prompts are broken")
}

/// A set of the user's own.
fn load(path: &Path) -> anyhow::Result<Vec<Prompt>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read prompts from {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not a prompt file", path.display()))
}

/// `n` prompts from all over the set, so that each kind keeps its share.
pub(crate) fn spread(prompts: Vec<Prompt>, n: usize) -> Vec<Prompt> {
    let n = n.min(prompts.len());
    (0..n).map(|position| prompts[position * prompts.len() / n].clone()).collect()
}

fn parse(text: &str) -> anyhow::Result<Vec<Prompt>> {
    let mut prompts: Vec<Prompt> = Vec::new();
    for (line_idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = line_idx + 1;
        let prompt: Prompt = serde_json::from_str(line).with_context(|| {
            format!("line {number}: expected an object like {{\"id\": \"a\", \"kind\": \"chat\", \"prompt\": \"Hi\"}}")
        })?;
        ensure!(!prompt.prompt.trim().is_empty(), "line {number}: the prompt is empty");
        ensure!(prompts.iter().all(|other| other.id != prompt.id), "line {number}: id {:?} is taken", prompt.id);
        prompts.push(prompt);
    }
    ensure!(!prompts.is_empty(), "it holds no prompt");
    Ok(prompts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_built_in_set_has_enough_of_each_kind() {
        let prompts = built_in().unwrap();
        assert!(prompts.len() >= 24);
        let mut kinds = BTreeMap::<&str, usize>::new();
        prompts.iter().for_each(|prompt| *kinds.entry(&prompt.kind).or_default() += 1);
        assert_eq!(kinds.keys().copied().collect::<Vec<_>>(), ["chat", "code", "list", "summary"]);
        assert!(kinds.values().all(|n_prompts| *n_prompts >= 5), "{kinds:?}");
        // A summary has the text to summarise in it.
        for prompt in prompts.iter().filter(|prompt| prompt.kind == "summary") {
            let n_words = prompt.prompt.split_whitespace().count();
            assert!((100..=220).contains(&n_words), "{} has {n_words} words", prompt.id);
        }
    }

    #[test]
    fn a_quick_run_still_has_every_kind() {
        let quick = spread(built_in().unwrap(), 6);
        assert_eq!(quick.len(), 6);
        for kind in ["chat", "code", "summary", "list"] {
            assert!(quick.iter().any(|prompt| prompt.kind == kind), "{kind} is missing");
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = r#"{"id": "a", "kind": "chat", "prompt": "Hi"}"#;
        for (text, expected) in [
            (format!("{good}\n\nnot json"), "line 3: expected an object"),
            (format!("{good}\n{good}"), "line 2: id \"a\" is taken"),
            (r#"{"id": "a", "kind": "chat", "prompt": " "}"#.to_owned(), "line 1: the prompt is empty"),
            ("\n".to_owned(), "it holds no prompt"),
        ] {
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}

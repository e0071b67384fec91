//! A seed gives one text, whatever happens to the processes behind it.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;
use specfleet_tests::binaries::{Pair, token_ids, tokens};

/// Long enough that a draft can be killed in the middle.
const SEEDED: [&str; 8] = [
    "--temperature",
    "0.8",
    "--seed",
    "7",
    "--ignore-eos",
    "--max-tokens",
    "300",
    "Tell a long story about a ship that nobody can find.",
];

/// A request on its way.
struct Running {
    specctl: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    events: Vec<Value>,
}

impl Running {
    fn start(pair: &Pair, arguments: &[&str]) -> Self {
        let mut command = pair.specctl(&["generate", "--json"]);
        let mut specctl = command.args(arguments).stdout(Stdio::piped()).spawn().expect("specctl starts");
        let lines = BufReader::new(specctl.stdout.take().unwrap()).lines();
        Self { specctl, lines, events: Vec::new() }
    }

    /// Reads until so many tokens have come.
    fn read(&mut self, n_tokens: usize) {
        while tokens(&self.events).len() < n_tokens {
            self.events.push(serde_json::from_str(&self.lines.next().expect("more tokens").unwrap()).unwrap());
        }
    }

    /// Reads to the end.
    fn finish(mut self) -> Vec<Value> {
        self.events.extend(self.lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()));
        assert!(self.specctl.wait().unwrap().success(), "{:?}", self.events.last());
        self.events
    }
}

/// The draft is killed while others are being served too; another version takes over; then that one is killed.
#[test]
fn a_fail_over_in_the_middle_changes_no_token() {
    let mut pair = Pair::start_with_two_versions();
    if !pair.promises_equal_bits() {
        return;
    }
    let expected = token_ids(&pair.generate(&[&["--no-speculation"], &SEEDED[..]].concat()));

    let other = Running::start(&pair, &["--temperature", "1", "--ignore-eos", "--max-tokens", "200", "Hello"]);
    let mut seeded = Running::start(&pair, &SEEDED);
    seeded.read(60);
    pair.draft.kill();
    seeded.read(160);
    pair.second_draft.as_mut().unwrap().kill();
    let events = seeded.finish();
    assert_eq!(token_ids(&events), expected);
    assert_eq!(token_ids(&other.finish()).len(), 200);
    let report = &events.last().unwrap()["stats"]["report"];
    assert_eq!(report["rule"], "draft-invariant");
    assert_eq!(report["draft_version_ids"].as_array().unwrap().len(), 2, "both versions were used: {report}");
    assert_eq!(tokens(&events).last().unwrap()["origin"], "plain");
}

#[test]
fn a_restart_of_the_verifier_changes_no_token() {
    let mut pair = Pair::start();
    let expected = token_ids(&pair.generate(&SEEDED));
    assert_eq!(token_ids(&pair.generate(&SEEDED)), expected, "again");
    let next_seed: Vec<&str> = SEEDED.iter().map(|argument| if *argument == "7" { "8" } else { *argument }).collect();
    assert_ne!(token_ids(&pair.generate(&next_seed)), expected);
    pair.restart_verifier();
    assert_eq!(token_ids(&pair.generate(&SEEDED)), expected, "after the restart");
}

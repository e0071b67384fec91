//! Drafts come and go; requests go on.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    thread,
};

use serde_json::Value;
use specfleet_tests::binaries::{Pair, token_ids, tokens};

/// Long enough that a draft can be killed in the middle.
const LONG: [&str; 6] =
    ["--temperature", "0", "--ignore-eos", "--max-tokens", "400", "Tell a long story about a dragon."];

#[test]
fn a_draft_killed_in_the_middle_does_not_end_the_request() {
    let mut pair = Pair::start();
    let equal_bits = pair.promises_equal_bits();
    let expected = token_ids(&pair.generate(&LONG));

    let mut running =
        pair.specctl(&["generate", "--json"]).args(LONG).stdout(Stdio::piped()).spawn().expect("specctl starts");
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut events: Vec<Value> = Vec::new();
    while tokens(&events).len() < 60 {
        events.push(serde_json::from_str(&lines.next().expect("more tokens").unwrap()).unwrap());
    }
    pair.draft.kill();
    events.extend(lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()));

    assert!(running.wait().unwrap().success(), "{:?}", events.last());
    assert_eq!(token_ids(&events).len(), expected.len());
    assert!(!equal_bits || token_ids(&events) == expected);
    let origins = |origin: &str| tokens(&events).iter().filter(|token| token["origin"] == origin).count();
    assert!(origins("accepted") > 0 && origins("plain") > 0, "{:?}", events.last());

    pair.wait_for_draft("unreachable");
    pair.restart_draft();
    let again = pair.generate(&LONG);
    assert!(!equal_bits || token_ids(&again) == expected);
    assert!(tokens(&again).iter().any(|token| token["origin"] == "accepted"), "speculation resumes");
}

/// SIGTERM while clients read: their streams are finished, nobody new is served, and the process ends well.
#[test]
fn a_verifier_that_is_told_to_leave_finishes_its_streams() {
    let pair = Pair::start();
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client =
            pair.specctl(&["generate", "--json"]).args(LONG).stdout(Stdio::piped()).spawn().expect("specctl starts");
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        lines.next().expect("the request is taken").unwrap();
        let rest = thread::spawn(move || lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect());
        clients.push((client, rest));
    }
    let Pair { verifier, draft: _draft, .. } = pair;
    let code = verifier.terminate();
    for (mut client, rest) in clients {
        let events: Vec<Value> = rest.join().unwrap();
        assert!(client.wait().unwrap().success(), "{:?}", events.last());
        assert_eq!((events.last().unwrap()["event"].as_str(), tokens(&events).len()), (Some("finished"), 400));
    }
    assert_eq!(code, Some(0));
}

#[test]
fn a_draft_that_never_was_there_is_not_missed() {
    let mut pair = Pair::start();
    pair.draft.kill();
    pair.wait_for_draft("unreachable");
    let events = pair.generate(&["--temperature", "0", "--max-tokens", "16", "Hello"]);
    assert!(tokens(&events).iter().all(|token| token["origin"] == "plain"), "{events:?}");
}

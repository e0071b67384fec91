//! The main job: verified text from two services.

use specfleet_tests::binaries::{Pair, finish, text, token_ids, tokens};

const PROMPT: &str = "What is the capital of France?";

fn origins(events: &[serde_json::Value], origin: &str) -> usize {
    tokens(events).iter().filter(|token| token["origin"] == origin).count()
}

#[test]
fn verified_text_streams_from_the_real_pair() {
    let pair = Pair::start();
    let events = pair.generate(&["--temperature", "0", "--max-tokens", "64", PROMPT]);
    assert!(text(&events).contains("Paris"), "{}", text(&events));
    assert!(origins(&events, "accepted") > 0, "{events:?}");
    assert!(origins(&events, "corrected") > 0, "{events:?}");
    let finished = events.last().unwrap();
    assert_eq!(finished["event"], "finished");
    assert_eq!(finished["usage"]["completion_tokens"].as_u64().unwrap() as usize, tokens(&events).len());
}

#[test]
fn greedy_text_is_the_same_with_and_without_speculation() {
    let pair = Pair::start();
    if !pair.promises_equal_bits() {
        return;
    }
    for prompt in [PROMPT, "Write a short story about a lighthouse keeper.", "Write a function that sorts a list."] {
        let greedy = ["--temperature", "0", "--max-tokens", "96", prompt];
        let speculative = pair.generate(&greedy);
        let plain = pair.generate(&[&["--no-speculation"], &greedy[..]].concat());
        assert_eq!(origins(&plain, "plain"), tokens(&plain).len());
        assert_eq!(token_ids(&speculative), token_ids(&plain), "{prompt}");
    }
}

#[test]
fn a_seed_gives_the_same_text_with_any_draft_length_and_without_a_draft() {
    let pair = Pair::start();
    if !pair.promises_equal_bits() {
        return;
    }
    let seeded = ["--temperature", "0.8", "--seed", "7", "--max-tokens", "64", "Tell me about the sea."];
    let expected = token_ids(&pair.generate(&seeded));
    for variation in [&["--draft-length", "1"][..], &["--draft-length", "6"], &["--no-speculation"]] {
        assert_eq!(token_ids(&pair.generate(&[variation, &seeded[..]].concat())), expected, "{variation:?}");
    }
    let other = pair.generate(&["--temperature", "0.8", "--seed", "8", "--max-tokens", "64", "Tell me about the sea."]);
    assert_ne!(token_ids(&other), expected);
}

#[test]
fn rounds_and_statistics_can_be_seen() {
    let pair = Pair::start();
    let arguments = ["generate", "--show-rounds", "--stats", "--temperature", "0", "--max-tokens", "48", PROMPT];
    let (succeeded, output, error) = finish(&mut pair.specctl(&arguments));
    assert!(succeeded, "{error}");
    // After the legend: without colour accepted tokens stand in brackets and corrected ones in braces.
    let (_, rounds) = output.split_once("\n\n").expect("a legend and the rounds");
    for sign in ["[", "{", "|"] {
        assert!(rounds.contains(sign), "{sign} in {rounds}");
    }
    assert!(error.contains("tokens/s") && error.contains("accepted"), "{error}");
}

#[test]
fn both_identities_are_shown() {
    let pair = Pair::start();
    let (succeeded, output, error) = finish(&mut pair.specctl(&["identity"]));
    assert!(succeeded, "{error}");
    assert!(output.contains("ready"), "{output}");
    let (_, direct, _) =
        finish(&mut pair.specctl(&["identity", "--draft-endpoint", &format!("http://{}", pair.draft.address)]));
    assert!(direct.contains("llama"), "{direct}");
}

#[test]
fn both_services_leave_cleanly_when_asked() {
    let pair = Pair::start();
    let Pair { verifier, draft, .. } = pair;
    assert_eq!(verifier.terminate(), Some(0));
    assert_eq!(draft.terminate(), Some(0));
}

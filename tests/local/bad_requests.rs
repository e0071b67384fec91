//! Bad requests get an error that says what was wrong; the services and other requests live on.

use specfleet_tests::binaries::{Pair, finish};

#[test]
fn each_bad_request_says_what_was_wrong() {
    let pair = Pair::start();
    let long_prompt = "word ".repeat(10_000);
    let cases: &[(&[&str], &str)] = &[
        (&["--temperature", "NaN", "Hi"], "temperature"),
        (&["--temperature=-1", "Hi"], "temperature"),
        (&["--top-p", "0", "Hi"], "top_p"),
        (&["--draft-length", "1000", "Hi"], "draft_length"),
        (&["--max-tokens", "0", "Hi"], "max_tokens"),
        (&["--stop-token-id", "49152", "Hi"], "stop_token_ids"),
        (&["--pin", "nobody", "--require-pin", "Hi"], "nobody"),
        (&["--raw", &long_prompt], "context"),
        (&[""], "empty"),
    ];
    for (arguments, named) in cases {
        let (succeeded, output, error) = finish(pair.specctl(&["generate"]).args(*arguments));
        assert!(!succeeded, "{arguments:?} was accepted: {output}");
        let error = error.replace('-', "_");
        assert!(error.contains(named), "{named} in the error for {arguments:?}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
    let events = pair.generate(&["--temperature", "0", "--max-tokens", "4", "Hi"]);
    assert_eq!(events.last().unwrap()["event"], "finished", "the verifier lives on");
}

#[test]
fn a_verifier_that_is_not_there_is_named() {
    let (succeeded, _, error) = finish(specfleet_tests::binaries::program("specctl").args([
        "--endpoint",
        "http://127.0.0.1:1",
        "generate",
        "Hi",
    ]));
    assert!(!succeeded);
    assert!(error.contains("127.0.0.1:1"), "{error}");
}

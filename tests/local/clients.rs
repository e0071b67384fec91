//! Programs that people use already, against the real pair: each is a script in `tests/clients` that ends with an error at
//! the first thing that does not work. `docs/clients.md` says what each of them needed.

use std::process::Command;

use specfleet_tests::binaries::{Pair, finish, from_environment};

/// Where `tests/run` has put the packages of most clients, and those of the evaluation harness.
const CLIENTS: &str = "SPECFLEET_TEST_CLIENTS";
const LM_EVAL: &str = "SPECFLEET_TEST_LM_EVAL";

#[test]
fn the_openai_package_works() {
    let pair = Pair::start();
    run(&pair, CLIENTS, "openai_client.py", &[&base_url(&pair)], "left a stream");
}

#[test]
fn langchain_works() {
    let pair = Pair::start();
    run(&pair, CLIENTS, "langchain_client.py", &[&base_url(&pair)], "twice the same");
}

#[test]
fn a_load_generator_works() {
    let pair = Pair::start();
    run(&pair, CLIENTS, "load_generator.py", &[&base_url(&pair)], "12 streams");
}

#[test]
fn the_evaluation_harness_works() {
    let pair = Pair::start();
    let tokenizer = from_environment("SPECFLEET_TEST_DRAFT");
    let arguments = [&base_url(&pair), tokenizer.to_str().expect("UTF-8")];
    run(&pair, LM_EVAL, "lm_eval_client.py", &arguments, "multiple choice: 1.0");
}

#[test]
fn calls_over_reflection_work() {
    let pair = Pair::start();
    run(&pair, CLIENTS, "reflection_client.py", &[&pair.verifier.address.to_string()], "refusal");
}

fn base_url(pair: &Pair) -> String {
    format!("http://{}/v1", pair.verifier.http)
}

/// Runs a script of `tests/clients` to its end and expects a part of what it prints.
fn run(pair: &Pair, packages: &str, script: &str, arguments: &[&str], expected: &str) {
    let script = format!("{}/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("python3");
    command.arg(&script).args(arguments).env("PYTHONPATH", from_environment(packages));
    let (succeeded, output, error) = finish(&mut command);
    assert!(succeeded, "{script}: {output}{error}\n{}", pair.verifier.log());
    assert!(output.contains(expected), "{expected:?} is not in {output}");
    eprint!("{output}");
}

//! A short run of every target, and the long one under `SPECFLEET_TEST_LONG`.
//!
//! Both are the same on every machine: the mutations come from a fixed seed.

use specfleet_fuzz::{campaign, targets};

/// How many times as many inputs the long form tries.
const LONG: usize = 30;

fn attack(name: &str, n_mutants: usize) {
    let target = targets::find(name).unwrap_or_else(|| panic!("no target {name}"));
    let n_mutants = if std::env::var_os("SPECFLEET_TEST_LONG").is_some() { LONG * n_mutants } else { n_mutants };
    let report = campaign::run(target, n_mutants);
    println!(
        "{name}: {} inputs, {} accepted, at most {} KiB and {:.0}% of what was allowed",
        report.n_inputs,
        report.n_accepted,
        report.peak >> 10,
        100.0 * report.share_of_allowance
    );
    assert!(10 * report.n_accepted > report.n_inputs / 10, "{name}: almost nothing gets past the first check");
}

#[test]
fn proposals_from_a_draft() {
    attack("proposal", 100_000);
}

#[test]
fn sessions_of_a_draft() {
    attack("draft-session", 500);
}

#[test]
fn identities_of_peers() {
    attack("identity", 100_000);
}

#[test]
fn events_of_a_request_as_clients_read_them() {
    attack("client", 6000);
}

#[test]
fn details_of_error_statuses() {
    attack("status", 60_000);
}

#[test]
fn headers_of_calls() {
    attack("headers", 8000);
}

#[test]
fn calls_of_the_draft_service() {
    attack("draft-service", 15_000);
}

#[test]
fn calls_of_the_draft_service_for_output_of_a_form() {
    attack("draft-service-grammar", 8000);
}

#[test]
fn requests_to_the_verifier() {
    attack("verifier-service", 10_000);
}

#[test]
fn requests_to_the_verifier_for_output_of_a_form() {
    attack("verifier-service-grammar", 8000);
}

#[test]
fn bodies_of_the_http_api() {
    attack("http", 10_000);
}

#[test]
fn bodies_of_the_http_api_for_output_of_a_form() {
    attack("http-grammar", 8000);
}

#[test]
fn gguf_files() {
    attack("gguf", 8000);
}

#[test]
fn safetensors_files() {
    attack("safetensors", 40_000);
}

#[test]
fn the_json_files_of_a_model_folder() {
    attack("folder", 10_000);
}

#[test]
fn tokenizer_files() {
    attack("tokenizer", 15_000);
}

#[test]
fn chat_templates() {
    attack("chat-template", 30_000);
}

#[test]
fn forms_of_output() {
    attack("grammar", 4000);
}

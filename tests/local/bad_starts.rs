//! What cannot start says why, and ends with an exit code.

use std::{fs, net::TcpListener, path::Path};

use specfleet_tests::binaries::{finish, free_address, from_environment, program, truncated_copy};

/// Runs a service that must refuse to start, and returns its error text.
fn refusal(service: &str, arguments: &[&str]) -> String {
    let ports = [free_address(), free_address(), free_address()].map(|address| address.to_string());
    let mut command = program(service);
    command.args(["--metrics-listen", &ports[0]]).env("SPECFLEET_HTTP_LISTEN", &ports[2]).args(arguments);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", &ports[1]]);
    }
    let (succeeded, _, error) = finish(&mut command);
    assert!(!succeeded, "{service} {arguments:?} started");
    assert!(!error.contains("panicked"), "{error}");
    error
}

fn target() -> String {
    from_environment("SPECFLEET_TEST_TARGET").to_str().unwrap().to_owned()
}

fn as_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_missing_model_file_is_named() {
    let error = refusal("verifier-service", &["--model", "/nowhere/model.gguf"]);
    assert!(error.contains("/nowhere/model.gguf"), "{error}");
}

#[test]
fn a_truncated_model_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("short.gguf");
    truncated_copy(Path::new(&target()), 50_000_000, &copy);
    let error = refusal("verifier-service", &["--model", as_str(&copy)]);
    assert!(error.contains("short.gguf"), "{error}");
    truncated_copy(Path::new(&target()), 1_000, &copy);
    let error = refusal("verifier-service", &["--model", as_str(&copy)]);
    assert!(error.contains("short.gguf"), "{error}");
}

#[test]
fn a_file_that_is_no_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("noise.gguf");
    fs::write(&file, vec![7; 4096]).unwrap();
    let error = refusal("verifier-service", &["--model", as_str(&file)]);
    assert!(error.contains("noise.gguf"), "{error}");
}

#[test]
fn an_unknown_architecture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let draft = from_environment("SPECFLEET_TEST_DRAFT");
    for entry in fs::read_dir(&draft).unwrap() {
        let path = entry.unwrap().path();
        std::os::unix::fs::symlink(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let config = fs::read_to_string(draft.join("config.json")).unwrap();
    fs::remove_file(folder.path().join("config.json")).unwrap();
    let strange = config.replace("LlamaForCausalLM", "MambaForCausalLM").replace("\"llama\"", "\"mamba\"");
    fs::write(folder.path().join("config.json"), strange).unwrap();
    let error = refusal("draft-service", &["--model", as_str(folder.path())]);
    assert!(error.to_lowercase().contains("mamba"), "{error}");
}

#[test]
fn a_port_in_use_is_named_with_the_flag_to_change_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = refusal("verifier-service", &["--model", &target(), "--listen", &address]);
    assert!(error.contains(&address) && error.contains("--listen"), "{error}");
}

#[test]
fn every_bad_setting_is_named_at_once() {
    let error = refusal("verifier-service", &["--draft-length", "99", "--max-sequences", "0"]);
    for flag in ["--model", "--draft-length", "--max-sequences"] {
        assert!(error.contains(flag), "{flag} in {error}");
    }
}

#[test]
fn help_is_there() {
    for name in ["verifier-service", "draft-service", "specctl"] {
        let (succeeded, help, _) = finish(program(name).arg("--help"));
        assert!(succeeded && help.contains("Usage"), "{help}");
    }
}

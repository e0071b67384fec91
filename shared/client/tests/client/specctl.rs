//! Runs the binary as a user does.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::fake::Fake;

/// `specctl` with everything that the environment could change taken out of it.
pub(crate) fn command(fake: &Fake, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_specctl"));
    command.env_remove("NO_COLOR").env("SPECFLEET_VERIFIER", &fake.endpoint).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end.
pub(crate) async fn run(fake: &Fake, arguments: &[&str]) -> Ran {
    run_with_input(fake, arguments, "").await
}

/// Runs it to its end with `input` on standard input.
pub(crate) async fn run_with_input(fake: &Fake, arguments: &[&str], input: &str) -> Ran {
    let mut command = command(fake, arguments);
    command.stdin(Stdio::piped());
    let input = input.to_owned();
    let run = move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    Ran::new(tokio::task::spawn_blocking(run).await.unwrap(), fake)
}

/// What came of it, with the fake's address replaced.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn new(output: Output, fake: &Fake) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&fake.endpoint, "http://VERIFIER");
        Self { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Standard output, after a run without errors.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// Standard output as JSON lines.
    pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

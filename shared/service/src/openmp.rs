//! libtorch computes on OpenMP threads, which by default go on spinning for some milliseconds after their work is done.
//! That is quick for one process alone. Two services on one machine spin against each other: while one's threads wait,
//! they hold the cores that the other's need, and steps stall.

use std::{env, io, os::unix::process::CommandExt, process::Command};

/// Read once by the OpenMP library, when it is loaded.
const WAIT_POLICY: &str = "OMP_WAIT_POLICY";
const PASSIVE: &str = "passive";

/// Makes waiting OpenMP threads sleep, unless `OMP_WAIT_POLICY` says what they should do.
///
/// The library is loaded before `main`, so that setting the variable there is too late. Where it is not set, this replaces
/// the process by the same program with it: same arguments, same process id. Call it first in `main`, before there are
/// threads, files or sockets.
///
/// # Errors
/// When the program cannot be started again. Everything works without, only slower beside another service.
pub fn wait_passively() -> io::Result<()> {
    if env::var_os(WAIT_POLICY).is_some() {
        return Ok(());
    }
    let mut arguments = env::args_os();
    let mut again = Command::new(env::current_exe()?);
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    Err(again.args(arguments).env(WAIT_POLICY, PASSIVE).exec())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::{self, Stdio};

    use super::*;

    /// Set in the process that the test starts.
    const INNER: &str = "SPECFLEET_TEST_WAIT_PASSIVELY";
    const NAME: &str = "openmp::tests::the_program_starts_again_once_with_the_same_id_and_arguments";

    /// Runs itself, because a test process cannot replace itself and go on reporting.
    #[test]
    fn the_program_starts_again_once_with_the_same_id_and_arguments() {
        if env::var_os(INNER).is_some() {
            wait_passively().unwrap();
            let policy = env::var(WAIT_POLICY).unwrap();
            println!("\n{} {policy} {:?}", process::id(), env::args_os().collect::<Vec<_>>());
            return;
        }
        for (given, expected) in [(None, PASSIVE), (Some("active"), "active")] {
            let mut inner = Command::new(env::current_exe().unwrap());
            inner.args([NAME, "--exact", "--nocapture"]).env(INNER, "1").env_remove(WAIT_POLICY);
            inner.envs(given.map(|policy| (WAIT_POLICY, policy)));
            let inner = inner.stdout(Stdio::piped()).spawn().unwrap();
            let id = inner.id();
            let output = String::from_utf8(inner.wait_with_output().unwrap().stdout).unwrap();
            let line = output.lines().find(|line| line.starts_with(&format!("{id} {expected} "))).unwrap_or(&output);
            assert!(line.contains(&format!("{NAME:?}, \"--exact\", \"--nocapture\"")), "{output}");
        }
    }
}

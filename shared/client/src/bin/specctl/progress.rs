//! How far a long command is.

use std::io::{self, IsTerminal, Write};

/// One line on standard error: counted up on a terminal, written once elsewhere.
pub(crate) struct Progress {
    name: String,
    unit: &'static str,
    total: usize,
    is_terminal: bool,
}

impl Progress {
    /// Work of `total` units, whose plural is `unit`.
    pub(crate) fn new(name: String, total: usize, unit: &'static str) -> Self {
        let progress = Self { name, unit, total, is_terminal: io::stderr().is_terminal() };
        if !progress.is_terminal {
            progress.write(&format!("{}: {total} {unit}\n", progress.name));
        }
        progress
    }

    pub(crate) fn show(&self, done: usize) {
        if self.is_terminal {
            self.write(&format!("\r{}: {done} of {} {}", self.name, self.total, self.unit));
        }
    }

    pub(crate) fn end(&self) {
        if self.is_terminal {
            self.write("\n");
        }
    }

    /// Progress that cannot be shown is no reason to stop the work.
    fn write(&self, text: &str) {
        let mut err = io::stderr();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

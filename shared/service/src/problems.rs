//! Whoever fixes one bad flag only to be told of the next gives up at the third. So checks collect.

use std::fmt;

/// Collects what is wrong with a configuration.
///
/// ```
/// use specfleet_service::Problems;
///
/// let (max_sequences, step_tokens) = (0, 8);
/// let mut problems = Problems::new();
/// problems.check("--max-sequences", max_sequences > 0, || "is 0, must be at least 1".into());
/// problems.check("--step-tokens", step_tokens >= 16, || format!("is {step_tokens}, must be at least 16"));
/// assert_eq!(
///     problems.finish().unwrap_err().to_string(),
///     "2 settings cannot be used:\n  --max-sequences is 0, must be at least 1\n  --step-tokens is 8, must be at least 16"
/// );
/// ```
#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<String>,
}

impl Problems {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what is wrong with `flag`, as a sentence that goes on after its name.
    pub fn add(&mut self, flag: &str, problem: impl fmt::Display) {
        self.list.push(format!("{flag} {problem}"));
    }

    /// Adds a problem unless `ok`.
    pub fn check(&mut self, flag: &str, ok: bool, problem: impl FnOnce() -> String) {
        if !ok {
            self.add(flag, problem());
        }
    }

    /// An error with every problem, in the order they were found.
    pub fn finish(self) -> Result<(), Error> {
        if self.list.is_empty() { Ok(()) } else { Err(Error { list: self.list }) }
    }
}

/// A configuration that cannot be used, with every reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    list: Vec<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.as_slice() {
            [only] => f.write_str(only),
            list => {
                write!(f, "{} settings cannot be used:", list.len())?;
                list.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for Error {}

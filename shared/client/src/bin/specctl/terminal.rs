//! Whether the reader is a person in front of a terminal.

use std::ffi::OsStr;
use std::io::IsTerminal;

use clap::ValueEnum;

/// The values of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Whether standard output gets colour.
    pub(crate) fn on_stdout(self) -> bool {
        self.resolve(std::io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
    }

    /// An explicit flag wins over NO_COLOR, which counts when it is not empty (<https://no-color.org>).
    fn resolve(self, is_terminal: bool, no_color: Option<&OsStr>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && no_color.is_none_or(OsStr::is_empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_needs_a_terminal_and_respects_no_color() {
        let set = Some(OsStr::new("1"));
        assert!(ColorChoice::Auto.resolve(true, None));
        assert!(ColorChoice::Auto.resolve(true, Some(OsStr::new(""))));
        assert!(!ColorChoice::Auto.resolve(false, None));
        assert!(!ColorChoice::Auto.resolve(true, set));
        assert!(ColorChoice::Always.resolve(false, set));
        assert!(!ColorChoice::Never.resolve(true, None));
    }
}

//! What an operator says about trust.

use std::str::FromStr;

/// Digits of a version id, which is a SHA-256 in hexadecimal.
pub(super) const VERSION_DIGITS: usize = 64;
/// A shorter beginning could name somebody else's version.
const LEAST_DIGITS: usize = 8;

/// Draft versions that an operator does not believe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntrustedDraft {
    /// Every one.
    All,
    /// Those whose id begins so.
    Version(String),
}

/// A text that names no draft version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be `all`, or a version id or the first {LEAST_DIGITS} or more of its lower-case hex digits")]
pub struct NotAVersion;

impl FromStr for UntrustedDraft {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let is_prefix = (LEAST_DIGITS..=VERSION_DIGITS).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match text {
            "all" => Ok(Self::All),
            _ if is_prefix => Ok(Self::Version(text.to_owned())),
            _ => Err(NotAVersion),
        }
    }
}

impl UntrustedDraft {
    pub(super) fn names(&self, version_id: &str) -> bool {
        match self {
            Self::All => true,
            Self::Version(prefix) => version_id.starts_with(prefix),
        }
    }
}

//! What a client may ask for.

use std::fmt;

/// The longest text of a form. Schemas that people write have a few thousand bytes; whoever has more means a grammar to be
/// compiled for long.
pub const MAX_FORM_BYTES: usize = 64 << 10;

/// The form that a whole output has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A JSON Schema, as JSON text.
    JsonSchema(String),
    /// A regular expression that the whole output matches.
    Regex(String),
    /// A grammar in llguidance's dialect of Lark.
    Lark(String),
}

impl Form {
    /// Its text.
    pub fn source(&self) -> &str {
        match self {
            Self::JsonSchema(source) | Self::Regex(source) | Self::Lark(source) => source,
        }
    }
}

impl fmt::Display for Form {
    /// What it is called, without its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonSchema(_) => "JSON schema",
            Self::Regex(_) => "regular expression",
            Self::Lark(_) => "grammar",
        })
    }
}

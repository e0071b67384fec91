//! What stands around the arguments of a call.

/// Why a text is not what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is too short to tell.
    Short,
    /// It is something else.
    Wrong,
}

/// What comes before the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The function.
    pub(super) name: String,
    /// In bytes.
    pub(super) len: usize,
}

/// `{"name": "f", "arguments": `, with an object to follow.
pub(super) fn head(text: &str, key: &str, names: &[String]) -> Result<Head, Stop> {
    let rest = expect(text, "{")?;
    let rest = expect(rest, "\"name\"")?;
    let rest = expect(rest, ":")?;
    let mut problem = Stop::Wrong;
    for name in names {
        match expect(rest, &quoted(name)) {
            Ok(rest) => {
                let rest = expect(rest, ",")?;
                let rest = expect(rest, &quoted(key))?;
                let rest = expect(rest, ":")?;
                expect(rest, "{")?;
                return Ok(Head { name: name.clone(), len: text.len() - without_space(rest).len() });
            }
            Err(Stop::Short) => problem = Stop::Short,
            Err(Stop::Wrong) => {}
        }
    }
    Err(problem)
}

/// `}` and the tag that closes the call, if there is one. Gives its length.
pub(super) fn tail(text: &str, close: &str) -> Result<usize, Stop> {
    let rest = expect(text, "}")?;
    let rest = if close.is_empty() { rest } else { expect(rest, close)? };
    Ok(text.len() - rest.len())
}

/// The rest of a text behind a piece of JSON, which may have space before it.
fn expect<'a>(text: &'a str, piece: &str) -> Result<&'a str, Stop> {
    let text = without_space(text);
    match text.strip_prefix(piece) {
        Some(rest) => Ok(rest),
        None if piece.starts_with(text) => Err(Stop::Short),
        None => Err(Stop::Wrong),
    }
}

fn without_space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r'])
}

/// Names and keys need no escapes.
fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

//! The `tojson` filter as Python's `json.dumps` writes: `", "` and `": "` between parts, nothing escaped for HTML.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, State, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::metered::Metered;

/// Serialises a value; `indent` spreads it over lines.
pub(super) fn to_json(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let written = match indent {
        Some(indent) => write(state, &value, PrettyFormatter::with_indent(" ".repeat(indent.min(16)).as_bytes())),
        None => write(state, &value, PythonFormatter),
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// The same on one line, outside a template.
pub(super) fn to_text(value: &serde_json::Value) -> String {
    let mut bytes = Vec::new();
    match value.serialize(&mut Serializer::with_formatter(&mut bytes, PythonFormatter)) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        // A vector takes everything, and keys are strings; the library's own spelling says the same.
        Err(_) => value.to_string(),
    }
}

fn write(state: &State<'_, '_>, value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut metered = Metered::new(state);
    value.serialize(&mut Serializer::with_formatter(&mut metered, formatter))?;
    Ok(metered.into_text())
}

/// One line, with Python's spaces.
struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

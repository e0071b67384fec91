//! The `tojson` filter as Python's `json.dumps` writes: `", "` and `": "` between parts, nothing escaped for HTML.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Serialises a value; `indent` spreads it over lines.
pub(super) fn to_json(value: Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let written = match indent {
        Some(indent) => write(&value, PrettyFormatter::with_indent(" ".repeat(indent.min(16)).as_bytes())),
        None => write(&value, PythonFormatter),
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

fn write(value: &Value, formatter: impl Formatter) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
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

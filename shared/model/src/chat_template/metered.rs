//! Text that is paid for before it is there.
//!
//! The engine counts text against a rendering's budget once it is written. A list that holds one list twice, which holds one
//! list twice, and so on, is small in memory, and its text has no end: what turns values into text must pay as it goes.

use std::{fmt, io};

use minijinja::value::Value;
use minijinja::{Error, Output, State};

/// Bytes for one unit of the budget, as the engine counts the data that it makes itself.
const BYTES_PER_FUEL: usize = 64;

/// Collects text until the budget is spent.
pub(super) struct Metered<'a, 'template, 'env> {
    state: &'a State<'template, 'env>,
    bytes: Vec<u8>,
    n_paid: usize,
}

impl<'a, 'template, 'env> Metered<'a, 'template, 'env> {
    pub(super) fn new(state: &'a State<'template, 'env>) -> Self {
        Self { state, bytes: Vec::new(), n_paid: 0 }
    }

    /// What was collected.
    pub(super) fn into_text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let n_units = (self.bytes.len() + bytes.len()).saturating_sub(self.n_paid).div_ceil(BYTES_PER_FUEL);
        if n_units > 0 {
            self.state.consume_fuel(n_units as u64)?;
            self.n_paid += n_units * BYTES_PER_FUEL;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl io::Write for Metered<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Metered<'_, '_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

/// The `string` filter.
pub(super) fn to_string(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        return Ok(value);
    }
    Ok(Value::from(text_of(state, &value)?))
}

/// Writes a value into the output.
pub(super) fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.as_object() {
        Some(_) => Ok(out.write_str(&text_of(state, value)?)?),
        None => minijinja::escape_formatter(out, state, value),
    }
}

fn text_of(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    let mut metered = Metered::new(state);
    if fmt::write(&mut metered, format_args!("{value}")).is_err() {
        // The budget is spent, which another unit says in the engine's words.
        state.consume_fuel(1)?;
    }
    Ok(metered.into_text())
}

//! What a test measured, as a table for people.

use std::io::Write;

use comfy_table::{CellAlignment, Table, presets};

/// Prints a table in Markdown under a title: text to the left in the first column, figures to the right in all others.
///
/// Not with `println!`, of which the test harness shows nothing unless a test fails. Figures are of use when it passes.
pub fn print<const N: usize>(title: &str, header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    // Nobody misses a table on a closed pipe.
    let _ = writeln!(std::io::stdout(), "\n{title}\n\n{table}\n");
}

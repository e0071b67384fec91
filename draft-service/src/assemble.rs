//! `draft-service assemble`: a distilled draft is stored without what it shares with its target, and loading wants the
//! whole.

use crate::config::AssembleArgs;

/// Writes a complete draft folder.
///
/// # Errors
/// When a part is missing or does not fit, or the folder cannot be written.
pub fn assemble(args: &AssembleArgs) -> anyhow::Result<()> {
    let assembled = specfleet_model::assemble::assemble(&args.target, &args.draft, &args.out)?;
    println!(
        "{}: {} layers, a head of {} rows, {:.1} MB",
        args.out.display(),
        assembled.n_layers,
        assembled.n_head_rows,
        assembled.n_bytes as f64 / 1e6
    );
    Ok(())
}

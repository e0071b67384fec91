//! A stack to match.
//!
//! The engine parses, prints and drops nested things by recursion, and a template can nest as deep as its length or its
//! budget allows: deeper than the stack of a thread of a server. An overflow would end the process, not the request.

use std::thread;

/// What a thread needs for itself.
const FIXED_BYTES: usize = 1 << 20;

/// Runs `work` with room for `n_bytes` of recursion. Only what is used takes memory.
///
/// # Errors
/// If the system gives no thread, or `work` panics.
pub(super) fn with_stack<T: Send>(n_bytes: usize, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let spawned = thread::Builder::new().stack_size(FIXED_BYTES.saturating_add(n_bytes)).spawn_scoped(scope, work);
        let thread = spawned.map_err(|error| format!("no thread for it: {error}"))?;
        thread.join().map_err(|_| "the template engine has a fault".to_owned())
    })
}

//! What the engine's loop needs from a way of drafting, so that it does not know whether tokens come from a transformer
//! or from the text itself.

use specfleet_speculation::TokenId;

use super::{Error, session::Session};

/// A way of drafting tokens.
pub(crate) trait Drafter: Send + 'static {
    /// What it keeps for one session.
    type Memory: Send;

    /// The longest sequence that one session may hold, draft tokens included.
    fn limit(&self) -> usize;

    /// Tokens that the memory of all sessions together is taken up by.
    fn n_held(&mut self) -> usize;

    /// Starts a session. Takes no memory from others yet.
    fn open(&mut self, committed: &[TokenId]) -> Self::Memory;

    /// Brings a session's memory in line with its committed prefix (what was drafted and not committed is forgotten) and
    /// reserves room for `n_tokens` in all.
    fn fit(&mut self, memory: &mut Self::Memory, committed: &[TokenId], n_tokens: usize) -> Result<(), OutOfMemory>;

    /// Whether `n_tokens` would fit into `memory` if all others but those that `stay` gave up theirs.
    fn could_fit<'a>(
        &mut self,
        memory: &'a Self::Memory,
        n_tokens: usize,
        stay: impl Iterator<Item = &'a Self::Memory>,
    ) -> bool;

    /// Whether the session has work to do although nobody waits for a proposal.
    fn has_background_work(&self, session: &Session<Self::Memory>) -> bool;

    /// Does one slice of work for all of them together. A session's draft grows, ends short by
    /// [`Draft::stop`](super::draft::Draft::stop), or fails by [`Draft::fail`](super::draft::Draft::fail); an error
    /// is about all of them.
    ///
    /// Whether a position is drafted may depend on anything known before its token is drawn, and on nothing after: no
    /// drawn token may be taken back.
    fn step(&mut self, sessions: &mut [&mut Session<Self::Memory>]) -> Result<(), Error>;

    /// Ends a session and frees its memory.
    fn close(&mut self, memory: Self::Memory, committed: &[TokenId]);
}

/// The memory of all sessions together is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

//! Drafting with a language model, for many sessions at once and without computing anything twice.
//!
//! Each step is one ragged forward pass. A session that has committed tokens without KV entries gives rows of those; one
//! that is past them gives its last drafted token. Where the pass reaches the end of a session's sequence, one token is
//! drawn: shaped, truncated, quantised, drawn from the integers, and reported with them.
//!
//! What a session has in the KV memory is always a prefix of (committed tokens, then drafted ones). After a round,
//! [`Cached::agree`] keeps the part that the verifier confirmed. With `a` of `k` draft tokens accepted, `k - 1` of them
//! were ingested, so `k - 1 - a` are dropped; when all were accepted, the last one was never ingested and is, before the
//! token that the verifier added.

use std::{collections::HashSet, sync::Arc};

use specfleet_model::{
    batch::{LanguageModel, Logits, Segment, WantedLogits},
    kv_cache::BLOCK_TOKENS,
};
use specfleet_speculation::{
    TokenId,
    propose::draft_token,
    transform::{self, Vocabulary},
};

use crate::engine::{
    Error,
    drafter::{Drafter, OutOfMemory},
    session::Session,
};

mod cached;
mod rows;

pub(crate) use self::cached::Cached;
use self::rows::{Rows, share_rows};

/// A language model as a drafter.
pub(crate) struct ModelDrafter {
    model: Box<dyn LanguageModel>,
    /// For a reduced head: the target's id of each of its rows.
    draft_vocab: Option<Arc<[TokenId]>>,
    limit: usize,
    /// Rows of long prefixes in one forward pass.
    prefill_rows: usize,
}

impl ModelDrafter {
    pub(crate) fn new(mut model: Box<dyn LanguageModel>, prefill_rows: usize) -> Self {
        let kv_tokens = model.kv().n_blocks() * BLOCK_TOKENS;
        let description = model.description();
        let draft_vocab = description.draft_vocab.clone();
        let limit = description.context_length.min(kv_tokens);
        Self { model, draft_vocab, limit, prefill_rows }
    }

    fn forward(&mut self, sessions: &mut [&mut Session<Cached>], rows: &[Rows]) -> Result<Logits, Error> {
        let with_rows = sessions.iter_mut().zip(rows).filter(|(_, rows)| rows.n_rows > 0);
        let mut segments: Vec<Segment<'_>> = with_rows.map(|(session, rows)| segment(session, *rows)).collect();
        self.model.forward(&mut segments).map_err(|error| Error::Model(error.to_string()))
    }

    /// Draws the next token of a session's draft from a row of logits.
    fn draw(&self, session: &mut Session<Cached>, logits: &mut [f32]) {
        let Some(draft) = &mut session.draft else { return };
        let _in_call = draft.span().clone().entered();
        let (settings, position) = (&session.settings, session.prefix.len() + draft.tokens().len());
        let vocabulary = self.draft_vocab.as_deref().map_or(Vocabulary::Full, Vocabulary::Reduced);
        match settings.transforms.shape(logits, vocabulary, session.prefix.counts(), draft.tokens()) {
            Ok(shaped) => {
                let (support, rule) = (settings.support, settings.rule);
                draft.push(draft_token(&shaped, support, rule, &settings.randomness, position as u64));
            }
            // The request bans every id that this draft knows. That is no fault, and it is known before the draw, so the
            // proposal may end here.
            Err(transform::Error::NothingLeft) => draft.stop(),
            Err(error) => draft.fail(Error::Model(format!("at position {position}: {error}"))),
        }
    }
}

impl Drafter for ModelDrafter {
    type Memory = Cached;

    fn limit(&self) -> usize {
        self.limit
    }

    fn n_held(&mut self) -> usize {
        let cache = self.model.kv();
        (cache.n_blocks() - cache.n_available()) * BLOCK_TOKENS
    }

    fn open(&mut self, committed: &[TokenId]) -> Cached {
        Cached::start(self.model.kv(), committed)
    }

    fn fit(&mut self, cached: &mut Cached, committed: &[TokenId], n_tokens: usize) -> Result<(), OutOfMemory> {
        cached.agree(self.model.kv(), committed);
        cached.reserve(self.model.kv(), n_tokens).map_err(|_| OutOfMemory)
    }

    fn could_fit<'a>(&mut self, cached: &'a Cached, n_tokens: usize, stay: impl Iterator<Item = &'a Cached>) -> bool {
        // Sessions with the same beginning share its blocks, which count once.
        let staying = stay.chain([cached]).flat_map(Cached::blocks).collect::<HashSet<_>>();
        let n_more = n_tokens.div_ceil(BLOCK_TOKENS).saturating_sub(cached.blocks().len());
        staying.len() + n_more <= self.model.kv().n_blocks()
    }

    fn has_background_work(&self, session: &Session<Cached>) -> bool {
        // A prefix that fills the limit leaves no position to draft for.
        session.prefix.len() < self.limit && Rows::of(session).n_rows > 0
    }

    fn step(&mut self, sessions: &mut [&mut Session<Cached>]) -> Result<(), Error> {
        let wanted: Vec<Rows> = sessions.iter().map(|session| Rows::of(session)).collect();
        let rows = share_rows(&wanted, self.prefill_rows);
        let mut logits = self.forward(sessions, &rows)?;
        let mut next_row = 0;
        for (session, rows) in sessions.iter_mut().zip(&rows) {
            session.memory.record(session.prefix.tokens(), session.draft.as_ref(), rows.n_rows);
            session.memory.publish_once(self.model.kv(), session.prefix.tokens());
            if rows.reaches_end && rows.n_rows > 0 {
                self.draw(session, logits.row_mut(next_row));
                next_row += 1;
            }
        }
        Ok(())
    }

    fn close(&mut self, mut cached: Cached, committed: &[TokenId]) {
        cached.agree(self.model.kv(), committed);
        cached.end(self.model.kv(), committed);
    }
}

/// The next `rows` of a session's sequence.
fn segment<'a>(session: &'a mut Session<Cached>, rows: Rows) -> Segment<'a> {
    let Session { prefix, draft, memory, .. } = session;
    let kv = memory.kv();
    let begin = kv.len();
    let tokens = match prefix.tokens().get(begin..begin + rows.n_rows) {
        Some(committed) => committed,
        // Past the prefix: all drafted tokens but the last have been ingested.
        None => draft.as_ref().and_then(|draft| draft.tokens().last()).map(std::slice::from_ref).unwrap_or_default(),
    };
    Segment { kv, tokens, logits: if rows.reaches_end { WantedLogits::Last } else { WantedLogits::None } }
}

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
//!
//! Three things shorten the work, all decided before a token is drawn. A proposal ends when the model's own confidence says
//! that the next token would hardly be reached ([`confidence`]). It has one token where masks of the output's form may be
//! dear ([`Policy::dearest_mask`]). And if told so, the drafter recalls what followed the last few tokens when they occurred
//! before in place of computing a proposal: that costs no pass, and the tokens that the model has not seen meanwhile are rows
//! of its next one.

use std::{collections::HashSet, sync::Arc, time::Duration};

use specfleet_grammar::Matcher;
use specfleet_model::{
    batch::{LanguageModel, Logits, Segment, WantedLogits},
    kv_cache::BLOCK_TOKENS,
};
use specfleet_speculation::{
    TokenId,
    draft_length::confidence,
    propose::draft_token,
    transform::{self, Mask, Vocabulary},
};
use tracing::{debug, warn};

use crate::{
    engine::{
        Error,
        drafter::{Drafter, OutOfMemory},
        session::Session,
    },
    lookup::{NgramIndex, recall},
};

mod cached;
mod rows;

use self::cached::Cached;
use self::rows::{FEW_ROWS, Rows, share_rows};

/// How a model drafts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// A proposal ends when the chance that all of it passes is below this.
    pub(crate) least_chance: f64,
    /// The n-grams whose earlier continuation is proposed without computing anything.
    pub(crate) recalled_ngram: Option<usize>,
    /// A proposal under a grammar has one token unless masks are known to take no more than this. A mask behind drafted
    /// tokens takes as long as they make it take, and a proposal that is late because of its tokens bends the law of the
    /// output; the mask before the first one takes as long as the committed tokens make it take.
    pub(crate) dearest_mask: Duration,
}

/// What is kept for one session.
pub(crate) struct Memory {
    cached: Cached,
    index: Option<NgramIndex>,
}

/// A language model as a drafter.
pub(crate) struct ModelDrafter {
    model: Box<dyn LanguageModel>,
    /// For a reduced head: the target's id of each of its rows.
    draft_vocab: Option<Arc<[TokenId]>>,
    limit: usize,
    /// Rows of long prefixes in one forward pass.
    prefill_rows: usize,
    policy: Policy,
}

impl ModelDrafter {
    pub(crate) fn new(mut model: Box<dyn LanguageModel>, prefill_rows: usize, policy: Policy) -> Self {
        let kv_tokens = model.kv().n_blocks() * BLOCK_TOKENS;
        let description = model.description();
        let draft_vocab = description.draft_vocab.clone();
        let limit = description.context_length.min(kv_tokens);
        Self { model, draft_vocab, limit, prefill_rows, policy }
    }

    fn forward(&mut self, sessions: &mut [&mut Session<Memory>], rows: &[Rows]) -> Result<Logits, Error> {
        let with_rows = sessions.iter_mut().zip(rows).filter(|(_, rows)| rows.n_rows > 0);
        let mut segments: Vec<Segment<'_>> = with_rows.map(|(session, rows)| segment(session, *rows)).collect();
        self.model.forward(&mut segments).map_err(|error| Error::Model(error.to_string()))
    }

    /// Draws the next token of a session's draft from a row of logits.
    fn draw(&self, session: &mut Session<Memory>, logits: &mut [f32]) {
        let Session { prefix, settings, grammar, draft: Some(draft), .. } = session else { return };
        let _in_call = draft.span().clone().entered();
        let position = prefix.len() + draft.tokens().len();
        let vocabulary = self.draft_vocab.as_deref().map_or(Vocabulary::Full, Vocabulary::Reduced);
        let mask = mask(grammar, draft.tokens());
        if draft.tokens().is_empty() && grammar.as_ref().is_some_and(|grammar| self.may_be_dear(grammar)) {
            draft.limit(1);
        }
        if let Some(mask) = &mask {
            // What the form rules out will not be drawn, and must not make the model look less sure than it is.
            mask.apply(logits, vocabulary);
        }
        let chance = confidence(logits);
        match settings.transforms.shape(logits, vocabulary, prefix.counts(), draft.tokens(), mask.as_ref()) {
            Ok(shaped) => {
                let (support, rule) = (settings.support, settings.rule);
                draft.push(draft_token(&shaped, support, rule, &settings.randomness, position as u64));
                draft.weigh(chance, self.policy.least_chance);
            }
            // The request, or its grammar, bans every id that this draft knows. That is no fault, and it is known before the
            // draw, so the proposal may end here.
            Err(transform::Error::NothingLeft) => draft.stop(),
            // What was drawn is not withheld because of what it led to. If it is committed, the next draft fails here.
            Err(error) if !draft.tokens().is_empty() => {
                warn!(position, %error, "a proposal ends before an unusable row");
                draft.stop();
            }
            Err(error) => draft.fail(Error::Model(format!("at position {position}: {error}"))),
        }
    }

    /// Whether masks behind drafted tokens may take long, going by earlier ones; those of a form that nobody knows may take
    /// for ever. Asked before the first draw of a proposal, so that its own tokens have no part in it.
    fn may_be_dear(&self, grammar: &Matcher) -> bool {
        grammar.mask_cost().unwrap_or(Duration::MAX) > self.policy.dearest_mask
    }
}

impl Drafter for ModelDrafter {
    type Memory = Memory;

    fn limit(&self) -> usize {
        self.limit
    }

    fn n_held(&mut self) -> usize {
        let cache = self.model.kv();
        (cache.n_blocks() - cache.n_available()) * BLOCK_TOKENS
    }

    fn open(&mut self, committed: &[TokenId]) -> Memory {
        let index = self.policy.recalled_ngram.map(|size| NgramIndex::new(size..=size));
        Memory { cached: Cached::start(self.model.kv(), committed), index }
    }

    fn fit(&mut self, memory: &mut Memory, committed: &[TokenId], n_tokens: usize) -> Result<(), OutOfMemory> {
        memory.cached.agree(self.model.kv(), committed);
        memory.cached.reserve(self.model.kv(), n_tokens).map_err(|_| OutOfMemory)
    }

    fn could_fit<'a>(&mut self, memory: &'a Memory, n_tokens: usize, stay: impl Iterator<Item = &'a Memory>) -> bool {
        // Sessions with the same beginning share its blocks, which count once.
        let staying = stay.chain([memory]).flat_map(|memory| memory.cached.blocks()).collect::<HashSet<_>>();
        let n_more = n_tokens.div_ceil(BLOCK_TOKENS).saturating_sub(memory.cached.blocks().len());
        staying.len() + n_more <= self.model.kv().n_blocks()
    }

    fn has_background_work(&self, session: &Session<Memory>) -> bool {
        // What a recalled round has left out rides along in the next pass, if there is one.
        let n_left_out = if session.memory.index.is_some() { FEW_ROWS } else { 0 };
        // A prefix that fills the limit leaves no position to draft for.
        session.prefix.len() < self.limit && Rows::of(session).n_rows > n_left_out
    }

    fn step(&mut self, sessions: &mut [&mut Session<Memory>]) -> Result<(), Error> {
        sessions.iter_mut().for_each(|session| look_up(session));
        let wanted: Vec<Rows> = sessions.iter().map(|session| Rows::of(session)).collect();
        let rows = share_rows(&wanted, self.prefill_rows);
        if rows.iter().all(|rows| rows.n_rows == 0) {
            return Ok(());
        }
        let mut logits = self.forward(sessions, &rows)?;
        let mut next_row = 0;
        for (session, rows) in sessions.iter_mut().zip(&rows) {
            let Session { prefix, memory, draft, .. } = &mut **session;
            memory.cached.record(prefix.tokens(), draft.as_ref(), rows.n_rows);
            memory.cached.publish_once(self.model.kv(), prefix.tokens());
            if rows.reaches_end && rows.n_rows > 0 {
                self.draw(session, logits.row_mut(next_row));
                next_row += 1;
            }
        }
        Ok(())
    }

    fn close(&mut self, Memory { mut cached, .. }: Memory, committed: &[TokenId]) {
        cached.agree(self.model.kv(), committed);
        cached.end(self.model.kv(), committed);
    }
}

/// What may follow the committed and the drafted tokens, if not everything may. A grammar that can no longer be followed is
/// given up: the verifier rejects what does not fit.
fn mask(grammar: &mut Option<Matcher>, drafted: &[TokenId]) -> Option<Mask> {
    match grammar.as_mut()?.mask(drafted) {
        Ok(mask) => Some(mask),
        Err(error) => {
            debug!(%error, "drafting goes on without the grammar");
            *grammar = None;
            None
        }
    }
}

/// Drafts from the text itself, if the session's draft has not begun and the text repeats itself. The model does not go on
/// from there, even if the grammar leaves less than was asked for: it has not seen those tokens.
fn look_up(session: &mut Session<Memory>) {
    let Session { prefix, memory, draft, grammar, .. } = session;
    if let (Some(index), Some(draft)) = (&mut memory.index, draft)
        && draft.tokens().is_empty()
    {
        recall(index, prefix.tokens(), grammar.as_mut(), draft);
        if !draft.tokens().is_empty() {
            draft.stop();
        }
    }
}

/// The next `rows` of a session's sequence.
fn segment<'a>(session: &'a mut Session<Memory>, rows: Rows) -> Segment<'a> {
    let Session { prefix, draft, memory, .. } = session;
    let kv = memory.cached.kv();
    let begin = kv.len();
    let tokens = match prefix.tokens().get(begin..begin + rows.n_rows) {
        Some(committed) => committed,
        // Past the prefix: all drafted tokens but the last have been ingested.
        None => draft.as_ref().and_then(|draft| draft.tokens().last()).map(std::slice::from_ref).unwrap_or_default(),
    };
    Segment { kv, tokens, logits: if rows.reaches_end { WantedLogits::Last } else { WantedLogits::None } }
}

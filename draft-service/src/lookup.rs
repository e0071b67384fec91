//! Drafting without a model: much text repeats itself, so what followed the last few tokens when they last occurred is a
//! good guess at what follows now (Saxena, "Prompt Lookup Decoding", 2023).
//!
//! A proposal is the continuation of the most recent earlier occurrence of the longest n-gram that ends the committed
//! prefix. Nothing is drawn: each distribution is a point mass at its token, which the verifier's rule tests exactly
//! whatever the sampling parameters are. Nothing found is an empty proposal. Where the output has a form, a proposal ends
//! before the first token that does not fit: that much is known before anything is tested, and needs no draw.

use specfleet_grammar::Matcher;
use specfleet_speculation::{TokenId, distribution::DraftDistribution, propose::Drafted};

use crate::engine::{
    Error,
    draft::Draft,
    drafter::{Drafter, OutOfMemory},
    session::Session,
};

mod index;

pub(crate) use self::index::{LONGEST_NGRAM, NgramIndex};

/// Prompt lookup as a drafter.
pub(crate) struct LookupDrafter {
    longest_ngram: usize,
    /// Tokens that all sessions together may hold.
    max_tokens: usize,
    n_held: usize,
}

/// What lookup keeps for one session.
pub(crate) struct Looked {
    index: NgramIndex,
    n_held: usize,
}

impl LookupDrafter {
    /// Looks for n-grams of up to `longest_ngram`, in sessions of `max_tokens` all together.
    pub(crate) fn new(longest_ngram: usize, max_tokens: usize) -> Self {
        Self { longest_ngram, max_tokens, n_held: 0 }
    }
}

/// Drafts what followed the end of the committed prefix when it occurred before, as point masses, if it did.
pub(crate) fn recall(index: &mut NgramIndex, committed: &[TokenId], grammar: Option<&mut Matcher>, draft: &mut Draft) {
    index.extend(committed);
    let tokens = index.continuation(committed, draft.n_wanted());
    let n_allowed = grammar.map_or(tokens.len(), |grammar| grammar.n_allowed(&tokens));
    for &token in &tokens[..n_allowed] {
        draft.push(Drafted { token, distribution: DraftDistribution::Point(token) });
    }
}

impl Drafter for LookupDrafter {
    type Memory = Looked;

    fn limit(&self) -> usize {
        self.max_tokens
    }

    fn n_held(&mut self) -> usize {
        self.n_held
    }

    fn open(&mut self, _committed: &[TokenId]) -> Looked {
        Looked { index: NgramIndex::new(1..=self.longest_ngram), n_held: 0 }
    }

    fn fit(&mut self, memory: &mut Looked, _committed: &[TokenId], n_tokens: usize) -> Result<(), OutOfMemory> {
        let n_held = self.n_held - memory.n_held + n_tokens;
        if n_held > self.max_tokens {
            return Err(OutOfMemory);
        }
        (self.n_held, memory.n_held) = (n_held, n_tokens);
        Ok(())
    }

    fn could_fit<'a>(&mut self, _memory: &'a Looked, n_tokens: usize, stay: impl Iterator<Item = &'a Looked>) -> bool {
        stay.map(|memory| memory.n_held).sum::<usize>() + n_tokens <= self.max_tokens
    }

    fn has_background_work(&self, _session: &Session<Looked>) -> bool {
        false
    }

    fn step(&mut self, sessions: &mut [&mut Session<Looked>]) -> Result<(), Error> {
        for session in sessions {
            let Some(draft) = &mut session.draft else { continue };
            recall(&mut session.memory.index, session.prefix.tokens(), session.grammar.as_mut(), draft);
            draft.stop();
        }
        Ok(())
    }

    fn close(&mut self, memory: Looked, _committed: &[TokenId]) {
        self.n_held -= memory.n_held;
    }
}

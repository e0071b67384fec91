//! Where one sequence stands in its grammar.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use llguidance::toktrie::SimpleVob;
use specfleet_speculation::{TokenId, transform::Mask};

use crate::{Error, cost::MaskCost, error::Reason, parser::Parser, places::Place};

/// The most that the grammar of one output and its state may take. A hundred tools take a third of that, and the tokens of
/// an output about 200 bytes each.
pub const MOST_BYTES: usize = 16 << 20;

/// What rules take for each byte of their text.
const RULE_BYTES: usize = 100;

/// The state of one sequence: which tokens may follow what is committed, and what is committed with some pending tokens.
///
/// Only [`commit`](Self::commit) moves it. A question about pending tokens moves the library's state over them, and the
/// next question or commit takes back what does not belong to it: what was asked about a rejected token leaves no trace.
///
/// Cloning is cheap and gives an independent state, which takes over one of the places among the outputs that there may be.
/// Clones share the lexer's automaton, which grows while they run, so they must belong to one client: one that makes it grow
/// too large fails them all.
#[derive(Clone)]
pub struct Matcher {
    parser: Parser,
    end_tokens: Arc<[TokenId]>,
    /// Tokens after the committed ones that `parser` has been moved over.
    ahead: Vec<Ahead>,
    /// Memory of the rules, and of the parser's chart for the committed tokens.
    own_bytes: usize,
    /// An end token is committed: nothing follows.
    has_ended: bool,
    /// No token has been looked at: the first mask is remembered with the form.
    is_fresh: bool,
    cost: MaskCost,
    /// Counts it, and the clones that are still to come, among those there may be. What is only remembered has none.
    _place: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Ahead {
    token: TokenId,
    /// What it has added to the chart's memory.
    chart_bytes: usize,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Matcher").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl Matcher {
    /// At the beginning of a grammar that was compiled from a text of `source_bytes`.
    pub(crate) fn new(mut parser: Parser, source_bytes: usize, end_tokens: Arc<[TokenId]>) -> Self {
        // Beside the rules it keeps the expressions that the lexer begins with.
        let own_bytes = source_bytes * RULE_BYTES + parser.lexer_bytes();
        Self {
            parser,
            end_tokens,
            ahead: Vec::new(),
            own_bytes,
            has_ended: false,
            is_fresh: true,
            cost: MaskCost::default(),
            _place: None,
        }
    }

    /// At the beginning of the same grammar, for another client: shares nothing but what is known of the form.
    pub(crate) fn separate(&self, place: Place) -> Self {
        let (parser, end_tokens) = (self.parser.separate(), self.end_tokens.clone());
        Self { parser, end_tokens, ahead: Vec::new(), cost: self.cost.of_another(), _place: Some(place), ..*self }
    }

    /// The ids that may follow the committed tokens and then `pending`. Where the text may end, all end tokens are among
    /// them; where nothing else can follow, only these. After an end token there is none.
    ///
    /// # Errors
    /// [`Error::Stuck`], from then on for ever; also if a committed or pending token was not allowed where it stood, or if
    /// it takes more memory than [`MOST_BYTES`].
    pub fn mask(&mut self, pending: &[TokenId]) -> Result<Mask, Error> {
        if self.has_ended || pending.iter().any(|token| self.end_tokens.contains(token)) {
            return Ok(Mask::default());
        }
        let started = Instant::now();
        let allowed = self.allowed(pending);
        if !self.is_fresh {
            // One that fails has taken its time as well.
            self.cost.masked(started.elapsed());
        }
        Ok(Mask::from_words(allowed?.into()))
    }

    /// What a mask and the commit before it are likely to take, going by the last ones of this output, or those of others
    /// where it has none: the time of the dearest, less with each cheaper one since. `None` while too few masks of the form
    /// have been computed to tell. The mask before any token is remembered with the form, and takes no time.
    pub fn mask_cost(&self) -> Option<Duration> {
        self.cost.next()
    }

    /// Makes one more token final. One that was not allowed makes the next [`mask`](Self::mask) an error, and so does one with
    /// which it takes too much memory.
    pub fn commit(&mut self, token: TokenId) {
        let started = Instant::now();
        self.advance(token);
        self.cost.committed(started.elapsed());
    }

    /// How many of `tokens`, from the first on, may follow the committed tokens.
    pub fn n_allowed(&mut self, tokens: &[TokenId]) -> usize {
        if self.has_ended || self.go_to(&[]).is_err() {
            return 0;
        }
        if self.parser.is_stopped() {
            return usize::from(tokens.first().is_some_and(|token| self.end_tokens.contains(token)));
        }
        // A library that has given up allows nothing.
        self.parser.n_valid(tokens).unwrap_or(0)
    }

    /// Memory that it takes, about.
    pub(crate) fn n_bytes(&mut self) -> usize {
        let ahead: usize = self.ahead.iter().map(|ahead| ahead.chart_bytes).sum();
        self.parser.lexer_bytes() + self.own_bytes + ahead
    }

    fn allowed(&mut self, pending: &[TokenId]) -> Result<SimpleVob, Error> {
        self.go_to(pending)?;
        let allowed = self.parser.mask()?;
        self.check_size()?;
        Ok(allowed)
    }

    fn advance(&mut self, token: TokenId) {
        if self.ahead.first().is_none_or(|ahead| ahead.token != token) {
            if self.end_tokens.contains(&token) {
                self.has_ended = true;
                return;
            }
            if self.go_to(&[token]).is_err() {
                return;
            }
        }
        self.own_bytes += self.ahead.remove(0).chart_bytes;
    }

    fn check_size(&mut self) -> Result<(), Error> {
        if self.n_bytes() <= MOST_BYTES {
            return Ok(());
        }
        let most = MOST_BYTES >> 20;
        Err(self
            .parser
            .fail(Reason::new(format!("it takes more memory than the {most} MiB that there are for one output"))))
    }

    /// Moves the library's state to just behind `pending`.
    fn go_to(&mut self, pending: &[TokenId]) -> Result<(), Error> {
        let n_common = self.ahead.iter().zip(pending).take_while(|(ahead, pending)| ahead.token == **pending).count();
        self.parser.rollback(self.ahead.len() - n_common)?;
        self.ahead.truncate(n_common);
        for &token in &pending[n_common..] {
            self.is_fresh = false;
            let chart_bytes = self.parser.consume(token)?;
            self.ahead.push(Ahead { token, chart_bytes });
            self.check_size()?;
        }
        Ok(())
    }
}

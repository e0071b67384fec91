//! Where one sequence stands in its grammar.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_speculation::{TokenId, transform::Mask};

use crate::{Error, error::Reason, parser::Parser, places::Place};

/// The most that the grammar of one output and its state may take. A hundred tools take a third of that, and the tokens of
/// an output about 200 bytes each.
pub const MOST_BYTES: usize = 16 << 20;

/// What rules take for each byte of their text.
const RULE_BYTES: usize = 100;

/// How much of the dearest mask is remembered after a cheaper one: a thread that had to wait for its core is forgotten
/// within some tokens.
const COST_MEMORY: f64 = 0.5;

/// The state of one sequence: which tokens may follow what is committed, and what is committed with some pending tokens.
///
/// Only [`commit`](Self::commit) moves it. A question about pending tokens moves the library's state over them, and the
/// next question or commit takes back what does not belong to it: what was asked about a rejected token leaves no trace.
///
/// Cloning is cheap and gives an independent state. Clones share the lexer's automaton, which grows while they run, so they
/// must belong to one client: one that makes it grow too large fails them all.
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
    mask_cost: Duration,
    /// What commits have taken since the last mask.
    commit_time: Duration,
    /// Counts it, with its clones, among those there may be. What is only remembered has none.
    _place: Option<Arc<Place>>,
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
        let (mask_cost, commit_time) = (Duration::ZERO, Duration::ZERO);
        Self {
            parser,
            end_tokens,
            ahead: Vec::new(),
            own_bytes,
            has_ended: false,
            mask_cost,
            commit_time,
            _place: None,
        }
    }

    /// At the beginning of the same grammar, for another client: shares nothing.
    pub(crate) fn separate(&self, place: Place) -> Self {
        let (parser, end_tokens) = (self.parser.separate(), self.end_tokens.clone());
        // The first mask is remembered with the rest, so that what it took says nothing.
        let (ahead, mask_cost) = (Vec::new(), Duration::ZERO);
        Self { parser, end_tokens, ahead, mask_cost, _place: Some(Arc::new(place)), ..*self }
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
        self.go_to(pending)?;
        let allowed = self.parser.mask()?;
        self.check_size()?;
        let took = started.elapsed() + std::mem::take(&mut self.commit_time);
        self.mask_cost = took.max(self.mask_cost.mul_f64(COST_MEMORY));
        Ok(Mask::from_words(allowed.into()))
    }

    /// What a mask and the commits before it are likely to take, going by the last ones: the time of the dearest, less with
    /// each cheaper one since.
    pub fn mask_cost(&self) -> Duration {
        self.mask_cost
    }

    /// Makes one more token final. One that was not allowed makes the next [`mask`](Self::mask) an error.
    pub fn commit(&mut self, token: TokenId) {
        let started = Instant::now();
        self.advance(token);
        self.commit_time += started.elapsed();
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
            let chart_bytes = self.parser.consume(token)?;
            self.ahead.push(Ahead { token, chart_bytes });
        }
        Ok(())
    }
}

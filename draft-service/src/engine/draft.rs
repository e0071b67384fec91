//! One proposal in the making: what has been drawn for it, when it must end, and who waits for it.

use std::time::{Duration, Instant};

use specfleet_protocol::status::Prefix;
use specfleet_speculation::{TokenId, distribution::DraftDistribution, propose::Drafted};
use tokio::sync::oneshot;
use tracing::Span;

use super::{Advance, Error, Proposed};

/// A proposal in the making.
pub(crate) struct Draft {
    n_wanted: usize,
    tokens: Vec<TokenId>,
    distributions: Vec<DraftDistribution>,
    /// The chance that all of them pass, as the draft sees it.
    chance: f64,
    failure: Option<Error>,
    arrived: Instant,
    deadline: Option<Instant>,
    started: Option<Instant>,
    compute: Duration,
    last_step: Duration,
    reply: oneshot::Sender<Result<Proposed, Error>>,
    span: Span,
}

impl Draft {
    /// Room for `n_wanted` tokens, to be sent to `reply`.
    pub(crate) fn new(
        advance: &Advance,
        n_wanted: usize,
        reply: oneshot::Sender<Result<Proposed, Error>>,
        span: Span,
    ) -> Self {
        Self {
            n_wanted,
            tokens: Vec::with_capacity(n_wanted),
            distributions: Vec::with_capacity(n_wanted),
            chance: 1.0,
            failure: None,
            arrived: advance.arrived,
            deadline: advance.deadline,
            started: None,
            compute: Duration::ZERO,
            last_step: Duration::ZERO,
            reply,
            span,
        }
    }

    /// The tokens drafted so far.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// How many tokens it will have, if nothing ends it early.
    pub(crate) fn n_wanted(&self) -> usize {
        self.n_wanted
    }

    /// The span of the call that asked for it.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Appends what was drawn.
    pub(crate) fn push(&mut self, drafted: Drafted) {
        self.tokens.push(drafted.token);
        self.distributions.push(drafted.distribution);
    }

    /// Notes the chance that the token just drawn passes, and ends the draft when the chance that all of them do is below
    /// `least`: then the next one would hardly be reached. The chance must not depend on what was drawn.
    pub(crate) fn weigh(&mut self, chance: f64, least: f64) {
        self.chance *= chance;
        if self.chance < least {
            self.stop();
        }
    }

    /// Ends it at the latest when it has so many tokens.
    pub(crate) fn limit(&mut self, most: usize) {
        self.n_wanted = self.n_wanted.min(most);
    }

    /// Ends it with the tokens that it has.
    pub(crate) fn stop(&mut self) {
        self.n_wanted = self.tokens.len();
    }

    /// Ends it, and the session's stream, with an error.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }

    /// Whether there is nothing left to draft.
    pub(crate) fn is_done(&self) -> bool {
        self.failure.is_some() || self.tokens.len() >= self.n_wanted
    }

    /// Whether nobody waits any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// Whether one more step like the last would end too late to be of use. Asked before a token is drawn, never after.
    pub(crate) fn is_out_of_time(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now + self.last_step >= deadline)
    }

    /// Accounts for a step that began at `started` and had rows of this session.
    pub(crate) fn record_step(&mut self, started: Instant, duration: Duration) {
        self.started.get_or_insert(started);
        self.compute += duration;
        self.last_step = duration;
    }

    /// Sends the proposal, and says what was sent for the metrics; `None` when it failed or nobody was there.
    pub(crate) fn answer(self, base: Prefix) -> Option<Answered> {
        let started = self.started.unwrap_or_else(Instant::now);
        let queue = started.saturating_duration_since(self.arrived);
        let answered = Answered { n_tokens: self.tokens.len(), queue, compute: self.compute };
        self.span.record("specfleet.proposed", answered.n_tokens);
        self.span.record("specfleet.queue_micros", micros(queue));
        self.span.record("specfleet.compute_micros", micros(self.compute));
        let (failed, answer) = match self.failure {
            Some(error) => (true, Err(error)),
            None => {
                let (tokens, distributions) = (self.tokens, self.distributions);
                (false, Ok(Proposed { base, tokens, distributions, queue, compute: self.compute }))
            }
        };
        let sent = self.reply.send(answer).is_ok();
        (sent && !failed).then_some(answered)
    }
}

/// What a proposal that was sent cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) n_tokens: usize,
    pub(crate) queue: Duration,
    pub(crate) compute: Duration,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

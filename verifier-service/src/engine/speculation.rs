//! What one sequence knows about its draft: is there a session, has it asked, does it hold an answer, and if not, why
//! will the next round be plain.
//!
//! ```text
//!            ask                     answer in time
//!   Idle ----------> Asked ------------------------> Holding ---+
//!    ^                 |                                        |
//!    |                 | wait cap passed                        | round
//!    |                 v                                        |
//!    |              Overdue (asks nothing, waits for nothing)   |
//!    |                 | answer                                 |
//!    +-----------------+----------------------------------------+
//! ```
//!
//! The session may end in any state. Nothing here decides about tokens: it is all about having a proposal for exactly the
//! committed prefix or not having one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_protocol::status::Prefix;
use specfleet_speculation::{TokenId, distribution::Proposal, round::RoundOutcome};
use tracing::Span;

use super::{crowd::Allowance, waiting::Reluctance};
use crate::{
    drafting::{
        Ask, Closed, Draft, DraftEvent, DraftEventKind, Opening, PlainReason, Pool, Quota, Reply, Session, Version,
    },
    report::TestedProposal,
    request, wire,
};

/// Rounds before a session that ended for reasons of its own is tried again; doubles each time.
const FIRST_PAUSE: u64 = 32;
/// The most doublings of it.
const MAX_DOUBLINGS: u32 = 6;

/// The drafting side of a sequence.
#[derive(Debug)]
pub(super) struct Speculation {
    options: request::Drafting,
    session: Option<Session>,
    stage: Stage,
    /// Why the next round is plain, unless it holds a proposal.
    why_plain: PlainReason,
    reluctance: Reluctance,
    /// Tokens of the committed prefix that the session has been told.
    n_told: usize,
    /// The pool's generation at the last attempt that found no draft.
    searched: Option<u64>,
    /// No session before this round.
    paused_until: u64,
    n_pauses: u32,
    /// What of it still counts in the watch over its draft's acceptance.
    pub(super) quota: Quota,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Asked(Question),
    Overdue(Question),
    Holding(Held),
}

#[derive(Clone, Copy, Debug)]
struct Question {
    round: u64,
    n_wanted: usize,
    asked: Instant,
    until: Instant,
    was_extended: bool,
}

/// A proposal for the committed prefix.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) proposal: Proposal,
    /// Tokens that were asked for; no fewer than have come.
    n_wanted: usize,
    pub(super) version: Arc<Version>,
    draft: Arc<Draft>,
    waited: Duration,
    compute: Duration,
}

impl Held {
    /// Settles by what the round judges the tokens: by the reported q, or, if its version is not believed, as point
    /// masses. Must come before anybody looks at a token. `true` if q is used.
    pub(super) fn settle_trust(&mut self) -> bool {
        let is_trusted = self.version.is_trusted();
        if !is_trusted {
            self.proposal.disbelieve();
        }
        is_trusted
    }

    /// A round has tested it: what the report says about it.
    pub(super) fn tested(self, outcome: &RoundOutcome, quota: &mut Quota) -> TestedProposal {
        let n_tokens = self.proposal.len();
        self.draft.count_round(n_tokens, outcome.n_accepted);
        self.version.count_round(&self.proposal, outcome, quota);
        let Version { id, metrics_label, .. } = &*self.version;
        TestedProposal {
            version: id.clone(),
            version_label: metrics_label.clone(),
            n_tokens,
            waited: self.waited,
            compute: self.compute,
        }
    }
}

/// What a round starts from.
pub(super) struct Round<'a> {
    /// Grows with every round of the sequence.
    pub(super) number: u64,
    pub(super) committed: &'a [TokenId],
    pub(super) digest: u64,
    /// Tokens that may still be committed.
    pub(super) n_left: usize,
    pub(super) allowance: Allowance,
    /// Draft tokens that there is time to compute masks for.
    pub(super) n_masked: usize,
    pub(super) span: &'a Span,
}

impl Speculation {
    pub(super) fn new(options: request::Drafting, quota: Quota) -> Self {
        let why_plain = if options.draft_length == 0 { PlainReason::Off } else { PlainReason::NoDraft };
        Self {
            options,
            session: None,
            stage: Stage::Idle,
            why_plain,
            reluctance: Reluctance::default(),
            n_told: 0,
            searched: None,
            paused_until: 0,
            n_pauses: 0,
            quota,
        }
    }

    /// Looks for a draft if there is none, which is worth a try only when one has become ready since the last time.
    /// `opening` must hold the `n_committed` tokens committed so far.
    pub(super) fn attach(
        &mut self,
        pool: &Pool,
        round: u64,
        n_committed: usize,
        allowance: Allowance,
        opening: impl FnOnce() -> Opening,
    ) {
        let generation = pool.generation();
        let is_due = round >= self.paused_until && self.searched != Some(generation);
        if self.options.draft_length == 0 || self.session.is_some() || !is_due {
            return;
        }
        if !allowance.may_open {
            self.why_plain = PlainReason::Load;
            return;
        }
        match pool.attach(self.options.pin.as_deref(), opening()) {
            Ok(session) => {
                self.session = Some(session);
                self.n_told = n_committed;
                self.searched = None;
            }
            Err(reason) => {
                self.why_plain = reason;
                self.searched = Some(generation);
            }
        }
    }

    /// Asks for a proposal for the coming round, if there is someone to ask and room for a draft token.
    pub(super) fn ask(&mut self, round: &Round<'_>, now: Instant) {
        let Some(session) = &self.session else { return };
        if let Stage::Overdue(_) = self.stage {
            self.why_plain = PlainReason::Late;
            return;
        }
        // The round commits one token more than it accepts.
        let n_wanted = self.options.draft_length.min(round.n_left.saturating_sub(1));
        if n_wanted == 0 {
            self.why_plain = PlainReason::Budget;
            return;
        }
        let n_wanted = n_wanted.min(round.allowance.n_draft);
        if n_wanted == 0 {
            self.why_plain = PlainReason::Load;
            return;
        }
        let n_wanted = n_wanted.min(round.n_masked);
        if n_wanted == 0 {
            self.why_plain = PlainReason::Masks;
            return;
        }
        let n_wanted = n_wanted.min(session.context_length.saturating_sub(round.committed.len()));
        if n_wanted == 0 {
            self.why_plain = PlainReason::NothingProposed;
            return;
        }
        if !self.reluctance.may_ask() {
            self.why_plain = PlainReason::Late;
            return;
        }
        let is_sent = session.ask(Ask {
            round: round.number,
            committed: round.committed[self.n_told..].to_vec(),
            base_length: wire::count(round.committed.len()),
            base_digest: round.digest,
            draft_length: wire::count(n_wanted),
            wait: self.options.wait,
            span: round.span.clone(),
        });
        if is_sent {
            self.n_told = round.committed.len();
            let until = now + self.options.wait;
            let question = Question { round: round.number, n_wanted, asked: now, until, was_extended: false };
            self.stage = Stage::Asked(question);
        } else {
            // Its last words are on the way.
            self.why_plain = PlainReason::StreamError;
        }
    }

    /// Takes in what a session says. `committed` is the prefix now. Returns why a proposal was thrown away, if one was.
    pub(super) fn hear(&mut self, event: DraftEvent, committed: Prefix, round: u64) -> Option<PlainReason> {
        match (event.kind, &self.session) {
            (DraftEventKind::Reply(reply), Some(session)) if session.id == event.session => {
                let (version, draft) = (session.version.clone(), session.draft.clone());
                self.hear_reply(reply, version, draft, committed)
            }
            (DraftEventKind::Closed(closed), Some(session)) if session.id == event.session => {
                self.hear_closed(closed, round)
            }
            // Of a session that this sequence has left behind.
            (DraftEventKind::Reply(_), _) => Some(PlainReason::Stale),
            (DraftEventKind::Closed(_), _) => None,
        }
    }

    fn hear_reply(
        &mut self,
        reply: Reply,
        version: Arc<Version>,
        draft: Arc<Draft>,
        committed: Prefix,
    ) -> Option<PlainReason> {
        let question = match self.stage {
            Stage::Asked(question) | Stage::Overdue(question) if question.round == reply.round => question,
            _ => return Some(PlainReason::Stale),
        };
        let was_in_time = matches!(self.stage, Stage::Asked(_));
        self.stage = Stage::Idle;
        if was_in_time {
            self.reluctance.was_in_time();
        }
        if (Prefix { length: reply.base_length, digest: reply.base_digest }) != committed {
            // Its round ran plainly meanwhile, unless the draft has answered about something else.
            let reason = if was_in_time { PlainReason::Stale } else { PlainReason::Late };
            self.why_plain = reason;
            return Some(reason);
        }
        if reply.proposal.is_empty() {
            self.why_plain = PlainReason::NothingProposed;
            return None;
        }
        let waited = reply.arrived.saturating_duration_since(question.asked);
        let (proposal, compute) = (reply.proposal, reply.timings.compute);
        let n_wanted = question.n_wanted;
        self.stage = Stage::Holding(Held { proposal, n_wanted, version, draft, waited, compute });
        None
    }

    /// A fault that tests put in: see [`Control::ReservesWhatCame`](crate::controls::Control::ReservesWhatCame).
    #[cfg(feature = "controls")]
    pub(super) fn reserve_what_came(&mut self) {
        if let Stage::Holding(held) = &mut self.stage {
            held.n_wanted = held.proposal.len();
        }
    }

    fn hear_closed(&mut self, closed: Closed, round: u64) -> Option<PlainReason> {
        self.session = None;
        self.why_plain = closed.reason;
        if !matches!(self.stage, Stage::Holding(_)) {
            self.stage = Stage::Idle;
        }
        if !closed.draft_in_doubt {
            self.paused_until = round + (FIRST_PAUSE << self.n_pauses);
            self.n_pauses = (self.n_pauses + 1).min(MAX_DOUBLINGS);
        }
        closed.dropped_proposal.then_some(closed.reason)
    }

    /// Until when the sequence waits for its answer; `None` if it does not.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Asked(question) => Some(question.until),
            Stage::Idle | Stage::Overdue(_) | Stage::Holding(_) => None,
        }
    }

    /// Stops waiting for an answer whose time is up.
    pub(super) fn lose_patience(&mut self, now: Instant) {
        if let Stage::Asked(question) = self.stage
            && question.until <= now
        {
            self.stage = Stage::Overdue(question);
            self.why_plain = PlainReason::Late;
            self.reluctance.was_late();
        }
    }

    /// A pass that took so long ran without this sequence.
    pub(super) fn sat_out(&mut self, pass: Duration) {
        if let Stage::Asked(question) = &mut self.stage
            && !question.was_extended
        {
            question.until += pass;
            question.was_extended = true;
        }
    }

    /// Draft tokens that it could bring to a pass now, at most: as many as it has asked for.
    ///
    /// How many have come may follow from which tokens were drawn, for a draft ends where it doubts. Whether a proposal gets
    /// its rows and its memory must not follow from that, or tokens would decide whether they are tested.
    pub(super) fn n_held(&self) -> usize {
        match &self.stage {
            Stage::Holding(held) => held.n_wanted,
            Stage::Idle | Stage::Asked(_) | Stage::Overdue(_) => 0,
        }
    }

    /// The proposal for the round that runs now, if the scheduler has given it rows; else why there is none.
    pub(super) fn take(&mut self, n_draft: usize) -> Result<Held, PlainReason> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Holding(held) if held.n_wanted == n_draft => Ok(held),
            other => {
                self.stage = other;
                Err(self.why_plain)
            }
        }
    }

    /// Ends the session and voids what is out or held; `true` if that throws a proposal away. The next round is plain.
    pub(super) fn void(&mut self) -> bool {
        if self.session.take().is_some() {
            self.why_plain = PlainReason::Stale;
        }
        matches!(std::mem::replace(&mut self.stage, Stage::Idle), Stage::Holding(_))
    }
}

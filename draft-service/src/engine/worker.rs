//! The loop of the engine's thread: take what waits, drop what nobody waits for, step, answer.
//!
//! Batching is continuous: an advance that arrives during a step joins the next one, whatever the others are at.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use specfleet_service::Progress;
use specfleet_speculation::TokenId;
use tokio::sync::oneshot;
use tracing::{Span, debug, warn};

use super::{
    Advance, Command, Engine, Error, Inbox, Limits, Open, Proposed, SessionHandle, SessionId,
    draft::Draft,
    drafter::{Drafter, OutOfMemory},
    session::{CommittedPrefix, Session},
};
use crate::telemetry::Metrics;

/// Everything the thread owns.
pub(crate) struct Worker<D: Drafter> {
    drafter: D,
    sessions: BTreeMap<SessionId, Session<D::Memory>>,
    limits: Limits,
    inbox: Inbox,
    metrics: Arc<Metrics>,
    progress: Progress,
    next_session: SessionId,
    /// Counts uses of sessions, to know the least recent one.
    uses: u64,
}

impl<D: Drafter> Worker<D> {
    pub(crate) fn new(drafter: D, limits: Limits, metrics: Arc<Metrics>, progress: Progress, inbox: Inbox) -> Self {
        Self { drafter, sessions: BTreeMap::new(), limits, inbox, metrics, progress, next_session: 0, uses: 0 }
    }

    /// Works until every handle is gone.
    pub(crate) fn run(mut self) {
        while self.has_work() || self.wait() {
            self.progress.turn();
            self.take_what_waits();
            self.drop_what_is_late();
            self.step();
            self.answer();
            self.metrics.memory(self.drafter.n_held());
        }
        debug!("the drafting engine has nothing left to serve");
    }

    fn has_work(&self) -> bool {
        self.sessions.values().any(|session| session.draft.is_some() || has_rows(&self.drafter, session))
    }

    /// Blocks until something arrives; false when nothing can any more.
    fn wait(&mut self) -> bool {
        self.progress.rest();
        crossbeam_channel::select! {
            recv(self.inbox.closes) -> close => close.map(|id| self.close(id)).is_ok(),
            recv(self.inbox.commands) -> command => command.map(|command| self.handle(command)).is_ok(),
        }
    }

    fn take_what_waits(&mut self) {
        // Closes first: they make room for what the commands open.
        while let Ok(id) = self.inbox.closes.try_recv() {
            self.close(id);
        }
        while let Ok(command) = self.inbox.commands.try_recv() {
            self.handle(command);
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Open { open, engine, reply } if !reply.is_closed() => self.open(*open, engine, reply),
            Command::Advance { session, advance, reply, span } if !reply.is_closed() => {
                self.advance(session, advance, reply, span);
            }
            Command::Constrain { session, grammar } => {
                // A session that is not there was closed for a reason that its handle knows.
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.grammar = Some(*grammar);
                }
            }
            // Whoever sent it has left.
            Command::Open { .. } | Command::Advance { .. } => {}
        }
    }

    fn open(&mut self, open: Open, engine: Engine, reply: oneshot::Sender<Result<SessionHandle, Error>>) {
        let memory = match self.admit(&open.committed) {
            Ok(memory) => memory,
            Err(error) => {
                // The caller may have left; then nobody needs to know.
                let _ = reply.send(Err(error));
                return;
            }
        };
        let id = self.next_session;
        self.next_session += 1;
        let (closed, closing) = oneshot::channel();
        let session = Session {
            prefix: CommittedPrefix::new(open.committed, open.n_prompt),
            settings: open.settings,
            grammar: None,
            memory,
            draft: None,
            last_used: self.next_use(),
            closed,
        };
        self.sessions.insert(id, session);
        self.metrics.session_opened();
        // If the caller has left, the handle is dropped with the message and closes the session.
        let _ = reply.send(Ok(SessionHandle::new(id, engine, closing)));
    }

    /// Finds room for one more session, closing idle ones if that helps.
    fn admit(&mut self, committed: &[TokenId]) -> Result<D::Memory, Error> {
        let limit = self.drafter.limit();
        if committed.len() > limit {
            return Err(Error::TooLong { n_tokens: committed.len(), limit });
        }
        let n_drafting = self.sessions.values().filter(|session| session.draft.is_some()).count();
        if n_drafting >= self.limits.max_sessions {
            return Err(Error::Full("every session is drafting; raise --max-sessions or add a draft"));
        }
        let n_tokens = limit.min(committed.len() + self.limits.max_draft_length);
        let mut memory = self.drafter.open(committed);
        if self.fit(&mut memory, committed, n_tokens).is_err() {
            self.drafter.close(memory, committed);
            return Err(Error::Full(
                "the sessions that are drafting leave too little memory; raise the KV memory or add a draft",
            ));
        }
        // Last: nobody is closed for a session that does not come about.
        while self.sessions.len() >= self.limits.max_sessions && self.evict_idle() {}
        Ok(memory)
    }

    /// Makes a session's memory fit, closing idle sessions as long as that is needed, and none if it would not help.
    fn fit(&mut self, memory: &mut D::Memory, committed: &[TokenId], n_tokens: usize) -> Result<(), OutOfMemory> {
        let drafting = self.sessions.values().filter(|session| session.draft.is_some());
        if !self.drafter.could_fit(memory, n_tokens, drafting.map(|session| &session.memory)) {
            return Err(OutOfMemory);
        }
        loop {
            match self.drafter.fit(memory, committed, n_tokens) {
                Err(OutOfMemory) if self.evict_idle() => {}
                fitted_or_not => return fitted_or_not,
            }
        }
    }

    fn advance(
        &mut self,
        id: SessionId,
        advance: Advance,
        reply: oneshot::Sender<Result<Proposed, Error>>,
        span: Span,
    ) {
        // Taken out, so that it is not among those that make room for it. A session that is not there was closed for
        // a reason that its handle knows.
        let Some(mut session) = self.sessions.remove(&id) else { return };
        session.last_used = self.next_use();
        if let Err(mismatch) = session.extend(&advance.committed, advance.base) {
            let _ = reply.send(Err(mismatch));
            self.sessions.insert(id, session);
            return;
        }
        let room = self.drafter.limit().saturating_sub(session.prefix.len());
        let n_wanted = advance.draft_length.min(self.limits.max_draft_length).min(room);
        session.draft = Some(Draft::new(&advance, n_wanted, reply, span));
        let n_tokens = session.prefix.len() + n_wanted;
        if n_wanted > 0 && self.fit(&mut session.memory, session.prefix.tokens(), n_tokens).is_err() {
            self.metrics.session_evicted();
            self.end(session, Some(Error::Evicted));
            return;
        }
        self.sessions.insert(id, session);
    }

    /// Before a step, never after one: nothing that was drawn is withheld.
    fn drop_what_is_late(&mut self) {
        let now = Instant::now();
        for session in self.sessions.values_mut() {
            match &mut session.draft {
                Some(draft) if draft.is_abandoned() => {
                    self.metrics.draft_abandoned();
                    session.draft = None;
                }
                Some(draft) if draft.is_out_of_time(now) => {
                    self.metrics.draft_out_of_time();
                    draft.stop();
                }
                _ => {}
            }
        }
    }

    fn step(&mut self) {
        let drafter = &self.drafter;
        let busy = self.sessions.iter_mut().filter(|(_, session)| has_rows(drafter, session));
        let (ids, mut sessions): (Vec<SessionId>, Vec<_>) = busy.map(|(&id, session)| (id, session)).unzip();
        if sessions.is_empty() {
            return;
        }
        let started = Instant::now();
        let outcome = self.drafter.step(&mut sessions);
        let duration = started.elapsed();
        for draft in sessions.iter_mut().filter_map(|session| session.draft.as_mut()) {
            draft.record_step(started, duration);
        }
        self.metrics.step(ids.len(), duration);
        if let Err(error) = outcome {
            warn!(%error, sessions = ids.len(), "a step failed; its sessions are closed");
            for id in ids {
                self.end_with(id, error.clone());
            }
        }
    }

    fn answer(&mut self) {
        for session in self.sessions.values_mut() {
            if let Some(draft) = session.draft.take_if(|draft| draft.is_done())
                && let Some(answered) = draft.answer(session.prefix.summary())
            {
                self.metrics.proposed(answered);
            }
        }
    }

    /// Closes the session that was idle for longest; false if none is idle.
    fn evict_idle(&mut self) -> bool {
        let idle = self.sessions.iter().filter(|(_, session)| session.draft.is_none());
        let Some((&id, _)) = idle.min_by_key(|(_, session)| session.last_used) else { return false };
        debug!(session = id, "evicting the least recently used session");
        self.metrics.session_evicted();
        self.end_with(id, Error::Evicted);
        true
    }

    fn close(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.end(session, None);
        }
    }

    fn end_with(&mut self, id: SessionId, why: Error) {
        if let Some(session) = self.sessions.remove(&id) {
            self.end(session, Some(why));
        }
    }

    fn end(&mut self, session: Session<D::Memory>, why: Option<Error>) {
        self.drafter.close(session.memory, session.prefix.tokens());
        self.metrics.session_closed();
        if session.draft.is_some() && why.is_none() {
            self.metrics.draft_abandoned();
        }
        if let Some(why) = why {
            // Before the draft's reply is dropped below: whoever waits for that asks here for the reason.
            let _ = session.closed.send(why);
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

/// Whether a step would do something for the session.
fn has_rows<D: Drafter>(drafter: &D, session: &Session<D::Memory>) -> bool {
    match &session.draft {
        Some(draft) => !draft.is_done(),
        None => drafter.has_background_work(session),
    }
}

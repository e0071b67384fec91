//! One `Draft` stream: one session, its messages answered in order.
//!
//! The stream owns the session's handle. However it ends, by half-close, by an error, or because the client went away and
//! the transport dropped it, the handle goes with it and the engine frees the session.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, stream};
use specfleet_protocol::{
    convert::check_token_ids,
    status::{Prefix, invalid_argument},
    v1::{self, DraftRequest, DraftResponse, draft_request, draft_response},
};
use specfleet_service::propagation;
use tonic::{Status, Streaming};
use tracing::{Instrument, Span, field::Empty, info_span};

use super::shared::Shared;
use crate::engine::{Advance, SessionHandle};

/// The state of one stream.
pub(crate) struct Conversation {
    shared: Arc<Shared>,
    inbound: Streaming<DraftRequest>,
    /// The caller's context.
    call: Span,
    session: Option<OpenSession>,
    /// A message that came while the one before it was being answered.
    early: Option<DraftRequest>,
}

struct OpenSession {
    handle: SessionHandle,
    last_round: Option<u64>,
    span: Span,
}

impl Conversation {
    pub(crate) fn new(shared: Arc<Shared>, inbound: Streaming<DraftRequest>, call: Span) -> Self {
        Self { shared, inbound, call, session: None, early: None }
    }

    /// The answers, one for each message, until the client half-closes or something goes wrong. A half-close is noticed
    /// during a draft too, so that nothing more is drafted for a request that has ended.
    pub(crate) fn responses(self) -> impl Stream<Item = Result<DraftResponse, Status>> {
        stream::unfold(Some(self), |conversation| async move {
            let mut conversation = conversation?;
            match conversation.next_response().await {
                Ok(Some(response)) => Some((Ok(response), Some(conversation))),
                Ok(None) => None,
                Err(status) => {
                    let span = conversation.session.as_ref().map_or(&conversation.call, |session| &session.span);
                    let status = span.in_scope(|| conversation.shared.refuse(status));
                    Some((Err(status), None))
                }
            }
        })
    }

    async fn next_response(&mut self) -> Result<Option<DraftResponse>, Status> {
        let Some(request) = self.next_request().await? else { return Ok(None) };
        let answer = match request.message {
            Some(draft_request::Message::Open(open)) => draft_response::Message::Opened(self.open(open).await?),
            Some(draft_request::Message::Advance(advance)) => {
                let Some(proposal) = self.advance(advance).await? else { return Ok(None) };
                draft_response::Message::Proposal(proposal)
            }
            None => return Err(invalid_argument("message", "is missing; send open first, then advance")),
        };
        Ok(Some(DraftResponse { message: Some(answer) }))
    }

    /// The next message; an error when the engine closes the session first.
    async fn next_request(&mut self) -> Result<Option<DraftRequest>, Status> {
        if let Some(early) = self.early.take() {
            return Ok(Some(early));
        }
        let Some(session) = &mut self.session else { return self.inbound.message().await };
        tokio::select! {
            biased;
            why = session.handle.closed() => Err(why.into()),
            request = self.inbound.message() => request,
        }
    }

    async fn open(&mut self, open: v1::Open) -> Result<v1::Opened, Status> {
        if self.session.is_some() {
            return Err(invalid_argument("open", "came twice; one stream is one session"));
        }
        let span = info_span!(
            parent: &self.call,
            "draft.session",
            specfleet.request_id = open.request_id,
            specfleet.version_id = self.shared.identity.version_id,
            specfleet.prompt_length = open.prompt_length,
        );
        self.shared.check_pin(&open.pin)?;
        let opening = self.shared.open(open.settings, open.committed, open.prompt_length);
        let handle = opening.instrument(span.clone()).await?;
        self.session = Some(OpenSession { handle, last_round: None, span });
        Ok(v1::Opened { identity: Some(self.shared.identity(false)) })
    }

    /// The proposal; `None` when the client half-closes before there is one.
    async fn advance(&mut self, advance: v1::Advance) -> Result<Option<v1::Proposal>, Status> {
        let arrived = Instant::now();
        let Some(session) = &mut self.session else {
            return Err(invalid_argument("advance", "came before open; open comes first"));
        };
        let round = advance.round;
        if let Some(last) = session.last_round.replace(round).filter(|&last| round <= last) {
            return Err(invalid_argument("advance.round", format!("is {round}, must be above the last one, {last}")));
        }
        if advance.draft_length == 0 {
            return Err(invalid_argument("advance.draft_length", "is 0, must be at least 1"));
        }
        check_token_ids("advance.committed", &advance.committed, self.shared.n_vocab)?;
        let span = info_span!(
            parent: &session.span,
            "draft.advance",
            specfleet.round = round,
            specfleet.base_length = advance.base_length,
            specfleet.draft_length = advance.draft_length,
            specfleet.proposed = Empty,
            specfleet.queue_micros = Empty,
            specfleet.compute_micros = Empty,
        );
        // What is done for a round belongs under it, and not under the stream that outlives it.
        propagation::continue_trace(&span, &advance.traceparent);
        let checked = Advance {
            committed: advance.committed,
            base: Prefix { length: advance.base_length, digest: advance.base_digest },
            draft_length: advance.draft_length as usize,
            arrived,
            deadline: time_budget(advance.time_budget_micros).map(|budget| arrived + budget),
        };
        let mut answer = pin!(session.handle.advance(checked, span.clone()).instrument(span));
        loop {
            tokio::select! {
                biased;
                proposed = &mut answer => return self.shared.proposal(round, proposed?).map(Some),
                // Clients may ask ahead. One message is read ahead: enough to see a half-close, and no queue.
                next = self.inbound.message(), if self.early.is_none() => match next? {
                    Some(early) => self.early = Some(early),
                    None => return Ok(None),
                },
            }
        }
    }
}

fn time_budget(micros: u32) -> Option<Duration> {
    (micros > 0).then(|| Duration::from_micros(micros.into()))
}

//! The async end of a session: speaks to the draft and doubts its every word.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use specfleet_protocol::{
    convert::{ProposalBounds, RoundProposal},
    v1::{self, draft_request, draft_response},
};
use specfleet_service::propagation;
use tokio::{
    sync::mpsc,
    time::{sleep_until, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use tracing::{Span, debug, field::Empty, info_span, warn};

use super::{Ask, OUTGOING, failure::Failure, notifier::Notifier};
use crate::{
    drafting::{
        PlainReason, Reply,
        draft::{Draft, OpenSession, State},
    },
    error::shortened,
    wire,
};

/// A draft that answers nothing for so long is taken for dead. Far above any wait for a proposal: until then its
/// sequences decode plainly and lose nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// This part of a wait is left for the way: a draft that runs out of time says what it has, and must still be heard. If it
/// were late just when it drafts long, the tokens that made it draft long would decide whether they are tested.
const SHARE_OF_THE_WAY: u32 = 3;
/// How long a half-closed stream may take to end before it is cut.
const GOODBYE: Duration = Duration::from_secs(1);

/// As much as a log and a status repeat of what should be a version id.
const VERSION_DIGITS: usize = 64;

/// The async end.
pub(super) struct Conversation {
    pub(super) draft: Arc<Draft>,
    /// What the draft was when it was chosen.
    pub(super) identity: Arc<v1::Identity>,
    pub(super) n_vocab: usize,
    /// Before `questions`: the engine hears of the end before it can notice it.
    pub(super) notifier: Notifier,
    pub(super) questions: mpsc::Receiver<Ask>,
    pub(super) counted: OpenSession,
}

/// A question that is out.
struct Pending {
    round: u64,
    draft_length: usize,
    silent_until: tokio::time::Instant,
    span: Span,
}

impl Conversation {
    pub(super) async fn run(mut self, open: v1::Open, time_left: Option<Duration>) {
        let started = tokio::time::Instant::now();
        let ended = self.converse(open, time_left).await;
        drop(self.counted);
        let closed = ended.err().map(|Failure { mut closed, detail }| {
            // The request's own time is up, and the call ended with it: that says nothing about the draft.
            closed.draft_in_doubt &= time_left.is_none_or(|left| started.elapsed() < left);
            Span::current().record("ended_by", closed.reason.as_str());
            warn!(reason = %closed.reason, detail, "draft session ended; the request goes on without it");
            if closed.draft_in_doubt {
                let in_doubt = match closed.reason {
                    PlainReason::Malformed => State::Incompatible { detail },
                    _ => State::Unreachable { detail },
                };
                self.draft.put_in_doubt(&self.identity, in_doubt);
            }
            closed
        });
        self.notifier.end(closed);
    }

    /// Returns when the engine has dropped its end, or with what went wrong.
    async fn converse(&mut self, open: v1::Open, time_left: Option<Duration>) -> Result<(), Failure> {
        let (requests, outgoing) = mpsc::channel(OUTGOING);
        let mut request = Request::new(ReceiverStream::new(outgoing));
        propagation::inject(request.metadata_mut());
        if let Some(time_left) = time_left {
            request.set_timeout(time_left);
        }
        let mut client = self.draft.client.clone();
        let mut call = std::pin::pin!(client.draft(request));
        // There is room for it, and the stream is not gone before the call is made.
        let _ = requests.send(request_of(draft_request::Message::Open(open))).await;

        // The first question may go out before the draft has answered the opening.
        let mut answers: Option<Streaming<v1::DraftResponse>> = None;
        let mut pending: Option<Pending> = None;
        let mut is_opened = false;
        let opening_deadline = tokio::time::Instant::now() + SILENCE;
        loop {
            let silent_until = match &pending {
                Some(pending) => Some(pending.silent_until),
                None => (!is_opened).then_some(opening_deadline),
            };
            tokio::select! {
                question = self.questions.recv() => match question {
                    Some(ask) => {
                        let (advance, asked) = advance_of(ask);
                        pending = Some(asked);
                        // Fails only if the stream is gone, which the other branches report with its reason.
                        let _ = requests.send(request_of(advance)).await;
                    }
                    None => {
                        drop(requests);
                        say_goodbye(answers).await;
                        return Ok(());
                    }
                },
                response = &mut call, if answers.is_none() => {
                    answers = Some(response.map_err(Failure::of_status)?.into_inner());
                }
                message = next_message(&mut answers) => {
                    let arrived = Instant::now();
                    let message = message.map_err(Failure::of_status)?;
                    let message = message.ok_or_else(|| Failure::of_stream("the draft ended the stream"))?.message;
                    match message.ok_or_else(|| Failure::malformed("a message of the draft holds nothing"))? {
                        draft_response::Message::Opened(_) if is_opened => {
                            return Err(Failure::malformed("the draft opened the session twice"));
                        }
                        draft_response::Message::Opened(opened) => {
                            self.check_opened(opened)?;
                            is_opened = true;
                        }
                        draft_response::Message::Proposal(proposal) => {
                            if !is_opened {
                                return Err(Failure::malformed("a proposal came before the session was opened"));
                            }
                            let reply = self.check_proposal(proposal, arrived, pending.take())?;
                            self.draft.has_proven_itself();
                            self.notifier.reply(reply);
                        }
                    }
                }
                () = until(silent_until) => {
                    return Err(Failure::of_stream(format!("the draft has not answered for {SILENCE:?}")));
                }
            }
        }
    }

    fn check_opened(&self, opened: v1::Opened) -> Result<(), Failure> {
        let served = opened.identity.unwrap_or_default().version_id;
        let pin = &self.identity.version_id;
        if served == *pin {
            return Ok(());
        }
        let served = shortened(&served, VERSION_DIGITS);
        Err(Failure::of_version(format!("pinned to {pin}, but the draft opened as {served:?}"), false))
    }

    fn check_proposal(
        &self,
        proposal: v1::Proposal,
        arrived: Instant,
        pending: Option<Pending>,
    ) -> Result<Reply, Failure> {
        let pin = &self.identity.version_id;
        if proposal.version_id != *pin {
            let sent = shortened(&proposal.version_id, VERSION_DIGITS);
            let detail = format!("pinned to {pin}, but the proposal is of {sent:?}");
            return Err(Failure::of_version(detail, true));
        }
        let pending = pending.ok_or_else(|| Failure::malformed("a proposal came that was not asked for"))?;
        if proposal.round != pending.round {
            let detail = format!("a proposal answers round {}, asked was {}", proposal.round, pending.round);
            return Err(Failure::malformed(detail));
        }
        let bounds = ProposalBounds { n_vocab: self.n_vocab, draft_length: pending.draft_length };
        let proposal =
            RoundProposal::from_wire(proposal, bounds).map_err(|error| Failure::malformed(error.to_string()))?;
        pending.span.record("n_proposed", proposal.proposal.len());
        pending.span.record("queue_micros", wire::micros(proposal.timings.queue));
        pending.span.record("compute_micros", wire::micros(proposal.timings.compute));
        Ok(Reply::new(proposal, arrived))
    }
}

fn request_of(message: draft_request::Message) -> v1::DraftRequest {
    v1::DraftRequest { message: Some(message) }
}

fn advance_of(ask: Ask) -> (draft_request::Message, Pending) {
    let span = info_span!(parent: &ask.span, "draft_call", draft_length = ask.draft_length,
        n_proposed = Empty, queue_micros = Empty, compute_micros = Empty);
    let traceparent = propagation::traceparent(&span);
    let pending = Pending {
        round: ask.round,
        draft_length: ask.draft_length as usize,
        silent_until: tokio::time::Instant::now() + SILENCE,
        span,
    };
    let advance = v1::Advance {
        round: ask.round,
        committed: ask.committed,
        base_length: ask.base_length,
        base_digest: ask.base_digest,
        draft_length: ask.draft_length,
        // 0 would mean no limit.
        time_budget_micros: wire::micros(ask.wait - ask.wait / SHARE_OF_THE_WAY).clamp(1, u32::MAX.into()) as u32,
        traceparent,
    };
    (draft_request::Message::Advance(advance), pending)
}

/// The next answer; pends while there is no stream yet.
async fn next_message(answers: &mut Option<Streaming<v1::DraftResponse>>) -> Result<Option<v1::DraftResponse>, Status> {
    match answers {
        Some(answers) => answers.message().await,
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Lets the half-closed stream end in its own way, so that neither side sees a cancellation.
async fn say_goodbye(answers: Option<Streaming<v1::DraftResponse>>) {
    if let Some(mut answers) = answers {
        let drain = async { while let Ok(Some(_)) = answers.message().await {} };
        if timeout(GOODBYE, drain).await.is_err() {
            debug!("the draft did not end a half-closed stream in time");
        }
    }
}

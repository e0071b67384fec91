//! The way of a request to the engine, whatever face it came through.

use std::{sync::Arc, time::Instant};

use specfleet_protocol::v1::GenerateRequest;
use tokio::time::timeout_at;
use tracing::{Span, field::Empty, info_span};

use crate::{
    engine::Reservation,
    error::Error,
    output::Generation,
    request::{Deadline, Drafting, Request},
    service::Shared,
};

/// A request that may run, with a place to run in.
pub(super) struct Checked {
    request: Request,
    place: Reservation,
}

/// A request that runs. Dropping it cancels the request.
pub(super) struct Running {
    pub(super) generation: Generation,
    pub(super) request_id: String,
    /// Open for as long as the client listens.
    _span: Span,
}

impl Shared {
    /// Checks a request that arrived `now`.
    pub(super) async fn check(
        self: &Arc<Self>,
        wire: GenerateRequest,
        now: Instant,
        deadline: Option<Deadline>,
    ) -> Result<Checked, Error> {
        let place = self.engine.admit(deadline)?;
        // It goes on if the client leaves, so it holds the place: otherwise whoever asks and leaves could keep a thread
        // busy for ever.
        let shared = self.clone();
        let check = move || shared.rules.check(wire, now, deadline).map(|request| (request, place));
        let (request, place) = in_time(deadline, self.texts.read(check)).await??;
        self.check_pin(&request.drafting)?;
        Ok(Checked { request, place })
    }

    fn check_pin(&self, drafting: &Drafting) -> Result<(), Error> {
        match &drafting.pin {
            Some(pin) if drafting.require_pin && !self.pool.has_ready(pin) => {
                Err(Error::DraftUnavailable { pin: pin.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Hands a request to the engine.
    pub(super) fn run(&self, Checked { request, place }: Checked) -> Result<Running, Error> {
        let span = info_span!(
            "generate",
            request_id = request.id,
            prompt_tokens = request.prompt.len(),
            completion_tokens = Empty,
            finish_reason = Empty
        );
        let request_id = request.id.clone();
        let generation = self.engine.generate(request, place, span.clone())?;
        Ok(Running { generation, request_id, _span: span })
    }
}

/// What comes of `work`, which may have to wait for its turn, unless the deadline comes first.
pub(super) async fn in_time<T, E: From<Error>>(
    deadline: Option<Deadline>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Some(Deadline { at, allowed }) = deadline else { return work.await };
    timeout_at(at.into(), work).await.unwrap_or_else(|_| Err(Error::Deadline(allowed).into()))
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_his_turn_waits_no_longer_than_he_said() {
        let allowed = Duration::from_millis(50);
        let deadline = Some(Deadline { at: Instant::now() + allowed, allowed });
        let never = in_time(deadline, pending::<Result<(), Error>>()).await;
        assert!(matches!(never, Err(Error::Deadline(told)) if told == allowed), "{never:?}");
        assert!(in_time(deadline, async { Ok::<(), Error>(()) }).await.is_ok(), "what is there is there, however late");
    }
}

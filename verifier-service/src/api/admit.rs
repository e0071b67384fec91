//! The way of a request to the engine, whatever face it came through.

use std::{sync::Arc, time::Instant};

use specfleet_protocol::v1::GenerateRequest;
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
        let (request, place) = self.texts.read(check).await??;
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

//! A call of either endpoint, from its requests to its answer.

use std::time::{Duration, Instant};

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header::CONTENT_TYPE, request::Parts},
    response::{IntoResponse, Response},
};
use specfleet_protocol::v1::GenerateRequest;

use super::{
    Entered, REQUEST_TIMEOUT,
    answer::{Chunks, Head, Spelling, collect},
    content::Form,
    events::CallEvents,
    failure::Failure,
    request_id::RequestId,
    sampling::Settings,
    sse,
};
use crate::{
    api::admit::Running,
    error::{Error, Violation},
    output::Generation,
    request::Deadline,
    service::Shared,
};

/// What a call's headers say, and when they came. The same for all who ask about one call.
#[derive(Clone, Debug)]
pub(super) struct Wishes {
    /// Names the call in logs, traces and answers.
    pub(super) request_id: String,
    arrived: Instant,
    pub(super) deadline: Option<Deadline>,
}

/// Requests that are answered together.
pub(super) struct Call {
    pub(super) entered: Entered,
    pub(super) wishes: Wishes,
    pub(super) settings: Settings,
    /// One for each prompt, with the same settings.
    pub(super) requests: Vec<GenerateRequest>,
}

impl Call {
    /// Runs the call.
    pub(super) async fn answer<S: Spelling>(self, spelling: S) -> Result<Response, Failure> {
        let n_of_prompt = self.requests.first().map_or(1, |request| request.n as usize);
        let n_choices = n_of_prompt * self.requests.len();
        let with_logprobs = self.requests.iter().any(|request| request.top_logprobs.is_some());
        let Self { entered, wishes, settings, requests } = self;
        let running = admit(&entered, &wishes, requests).await.map_err(|error| {
            entered.shared.engine.count_refusal(&error);
            spelling.error(error)
        })?;
        let fingerprint = entered.shared.fingerprint(settings.speculation.as_ref());
        let head = Head::new::<S>(&wishes.request_id, &entered.shared.identity.label, fingerprint);
        let tokenizer = entered.shared.rules.tokenizer.clone();
        let form = Form { tokenizer, with_logprobs, n_of_prompt, n_choices, sought: spelling.sought() };
        let generations = running.iter().map(|running| &running.generation);
        if settings.is_stream() {
            let ends: Vec<_> = generations.map(Generation::has_ended).collect();
            let events = CallEvents::new(running, n_of_prompt, wishes.deadline, &entered.drain, entered.running);
            let chunks = Chunks::new(head, form, spelling, settings.wants_usage());
            return Ok(sse::respond(events, chunks, move || ends.iter().all(|has_ended| has_ended())));
        }
        let places = generations.flat_map(Generation::hold_places).collect();
        let events = CallEvents::new(running, n_of_prompt, wishes.deadline, &entered.drain, entered.running);
        let whole = collect(events, places, head, form, spelling).await?;
        Ok(([(CONTENT_TYPE, "application/json")], whole.into_body()).into_response())
    }
}

/// Whether so many prompts could ever run together.
pub(super) fn check_n_prompts(shared: &Shared, n_prompts: usize) -> Result<(), Error> {
    check_n_choices(shared, n_prompts, n_prompts)
}

fn check_n_choices(shared: &Shared, n_prompts: usize, n_choices: usize) -> Result<(), Error> {
    // More than there are places would find no room however often they came again.
    let n_places = shared.engine.n_places();
    if n_prompts == 0 || (n_prompts > 1 && n_choices > n_places) {
        let description =
            format!("holds {n_prompts} prompts for {n_choices} continuations, allowed: from 1 to {n_places} of them");
        return Err(Error::Invalid(vec![Violation::new("prompt", description)]));
    }
    Ok(())
}

/// Admits all requests, or none: the first that is refused takes the others with it.
async fn admit(entered: &Entered, wishes: &Wishes, requests: Vec<GenerateRequest>) -> Result<Vec<Running>, Error> {
    check_n_choices(&entered.shared, requests.len(), requests.iter().map(|request| request.n as usize).sum())?;
    let mut checked = Vec::with_capacity(requests.len());
    for request in requests {
        checked.push(entered.shared.check(request, wishes.arrived, wishes.deadline).await?);
    }
    checked.into_iter().map(|checked| entered.shared.run(checked)).collect()
}

impl<S: Sync> FromRequestParts<S> for Wishes {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        if let Some(known) = parts.extensions.get::<Self>() {
            return Ok(known.clone());
        }
        let arrived = Instant::now();
        // A call without a name would get one from the rules.
        let request_id = parts.extensions.get::<RequestId>().map(|id| id.0.clone()).unwrap_or_default();
        let wishes = Self { request_id, arrived, deadline: deadline(&parts.headers, arrived)? };
        parts.extensions.insert(wishes.clone());
        Ok(wishes)
    }
}

fn deadline(headers: &HeaderMap, arrived: Instant) -> Result<Option<Deadline>, Failure> {
    let Some(value) = headers.get(REQUEST_TIMEOUT) else { return Ok(None) };
    let millis: Option<u32> = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let allowed = millis.filter(|&millis| millis > 0).map(|millis| Duration::from_millis(millis.into()));
    let message = || format!("the header {REQUEST_TIMEOUT} is {value:?}, allowed: whole milliseconds from 1");
    let allowed = allowed.ok_or_else(|| Failure::invalid(REQUEST_TIMEOUT, message()))?;
    Ok(Some(Deadline { at: arrived + allowed, allowed }))
}

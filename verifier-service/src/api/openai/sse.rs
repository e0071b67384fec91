//! A stream as server-sent events: a chunk each, comments while nothing comes, and `[DONE]` after a complete answer.
//!
//! A failure on the way is an event `{"error": ...}` and the end of the stream. No chunk with a made-up finish reason
//! comes before it and no `[DONE]` after it: a client that knows only these two must not take half an answer for a
//! whole one.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response,
    sse::{self, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};

use super::{
    answer::{Chunks, Spelling},
    events::{Event, Events},
    failure::Failure,
};
use crate::error::Error;

/// Proxies and clients commonly give up after a minute of silence, some after 30 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Proxies that follow nginx would otherwise collect chunks before they pass them on.
const UNBUFFERED: (&str, &str) = ("x-accel-buffering", "no");
const DONE: &str = "[DONE]";

/// The events as a response.
pub(super) fn respond<S: Spelling>(events: Events, chunks: Chunks<S>) -> Response {
    let stream = Sse::new(lines(events, chunks)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([UNBUFFERED], stream).into_response()
}

fn lines<S: Spelling>(
    events: Events,
    mut chunks: Chunks<S>,
) -> impl Stream<Item = Result<sse::Event, Infallible>> + Send {
    events.flat_map(move |event| {
        let mut lines = Vec::new();
        if let Err(error) = event.and_then(|event| write(&mut chunks, event, &mut lines)) {
            lines.extend(sse::Event::default().json_data(Failure::from(error).into_event()));
        }
        stream::iter(lines.into_iter().map(Ok))
    })
}

fn write<S: Spelling>(chunks: &mut Chunks<S>, event: Event, lines: &mut Vec<sse::Event>) -> Result<(), Error> {
    let complete = chunks.push(event, |chunk| {
        lines.push(sse::Event::default().json_data(chunk)?);
        Ok(())
    });
    if complete.map_err(|error: axum::Error| Error::ModelFailed(error.to_string()))? {
        lines.push(sse::Event::default().data(DONE));
    }
    Ok(())
}

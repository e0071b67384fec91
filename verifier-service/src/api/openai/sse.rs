//! A stream as server-sent events: a chunk each, comments while nothing comes, and `[DONE]` after a complete answer.
//!
//! A failure on the way is an event `{"error": ...}` and the end of the stream. No chunk with a made-up finish reason
//! comes before it and no `[DONE]` after it: a client that knows only these two must not take half an answer for a
//! whole one.

use std::time::Duration;

use axum::response::{
    IntoResponse, Response,
    sse::{self, KeepAlive, Sse},
};
use futures::{Stream, StreamExt, stream};

use super::{
    answer::{Chunk, Chunks, Spelling},
    events::CallEvent,
    failure::Failure,
    slices,
};
use crate::{error::Error, output::untaken};

/// Proxies and clients commonly give up after a minute of silence, some after 30 seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Proxies that follow nginx would otherwise collect chunks before they pass them on.
const UNBUFFERED: (&str, &str) = ("x-accel-buffering", "no");
const DONE: &str = "[DONE]";

/// The events as a response, of a call that tells whether it `has_ended`.
pub(super) fn respond<S: Spelling>(
    events: impl Stream<Item = Result<CallEvent, Error>> + Send + 'static,
    chunks: Chunks<S>,
    has_ended: impl Fn() -> bool + Send + 'static,
) -> Response {
    let stream = Sse::new(lines(events, chunks)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    let untaken = serde_json::to_string(&Failure::from(untaken()).into_event());
    let last = untaken.ok().map(|data| format!("data: {data}\n\n"));
    let response = ([UNBUFFERED], stream).into_response();
    response.map(|body| slices::watched(body, Vec::new(), has_ended, last))
}

fn lines<S: Spelling>(
    events: impl Stream<Item = Result<CallEvent, Error>> + Send,
    mut chunks: Chunks<S>,
) -> impl Stream<Item = Result<sse::Event, serde_json::Error>> + Send {
    events.flat_map(move |event| {
        let (chunks, last) = match event {
            Ok(event) => (chunks.push(event), chunks.are_complete().then(|| Ok(DONE.to_owned()))),
            Err(error) => {
                let failure = Failure::from(chunks.spelling().error(error)).into_event();
                (Vec::new(), Some(serde_json::to_string(&failure)))
            }
        };
        // One by one: each is sent before the next is written.
        let data = chunks.into_iter().filter_map(Chunk::write).chain(last);
        stream::iter(data.map(|data| Ok(sse::Event::default().data(data?))))
    })
}

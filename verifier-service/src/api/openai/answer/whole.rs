//! An answer in one piece.
//!
//! It is collected as it comes about, whatever its size, and written as its client takes it. So it takes memory for longer
//! than the engine works for it, and keeps its places until it is written, however it has ended.
//!
//! If it breaks off, what was verified until then belongs to the client, who has waited and paid for it. A stream has shown
//! it already; here the error brings it along, beside the object `error` that every client reads: `partial` is the answer as
//! far as it got, in the form that it would have had. Continuations that did not end have no `finish_reason`, so that nobody
//! can take them for whole.

use std::{iter::zip, sync::Arc};

use futures::{Stream, StreamExt};
use serde::Serialize;

use super::{
    super::{
        content::{Content, Form, Reader},
        events::CallEvent,
        failure::Failure,
        pieces::Pieces,
        usage::Usage,
    },
    Head, Spelling, reason,
};
use crate::{engine::Permit, error::Error};

/// What has come of an answer.
struct Whole<S> {
    head: Head,
    form: Form,
    spelling: S,
    contents: Vec<Content>,
    readers: Vec<Reader>,
    /// Of those continuations that have ended.
    reasons: Vec<Option<&'static str>>,
    usage: Usage,
    places: Vec<Arc<Permit>>,
}

#[derive(Serialize)]
struct Account {
    usage: Usage,
}

/// The whole answer to a call that has these places, as JSON.
pub(in super::super) async fn collect<S: Spelling>(
    mut events: impl Stream<Item = Result<CallEvent, Error>> + Unpin,
    places: Vec<Arc<Permit>>,
    head: Head,
    form: Form,
    spelling: S,
) -> Result<Pieces, Failure> {
    let mut whole = Whole::new(places, head, form, spelling);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => whole.add(event),
            Err(error) => return Err(whole.broken_off(error)),
        }
    }
    whole.pieces()
}

impl<S: Spelling> Whole<S> {
    fn new(places: Vec<Arc<Permit>>, head: Head, form: Form, spelling: S) -> Self {
        let content = |index| Content { offset: form.n_echoed(spelling.echo(index)), ..form.content() };
        Self {
            contents: (0..form.n_choices).map(content).collect(),
            readers: form.readers(),
            reasons: vec![None; form.n_choices],
            usage: Usage::default(),
            places,
            head,
            form,
            spelling,
        }
    }

    fn add(&mut self, event: CallEvent) {
        match event {
            CallEvent::Started { n_prompt, n_reused, .. } => self.usage.started(n_prompt, n_reused),
            CallEvent::Committed { choice, prompt, tokens } => {
                self.usage.committed(tokens.len());
                if !prompt.is_empty() {
                    let prompt = self.form.scored_prompt(&prompt, self.spelling.echo(choice).unwrap_or_default());
                    for sibling in self.form.siblings(choice) {
                        self.contents[sibling].put_before(&prompt);
                    }
                }
                self.form.extend(&mut self.readers[choice], &mut self.contents[choice], tokens);
            }
            CallEvent::Finished { choice, finished } => {
                let reader = &mut self.readers[choice];
                reader.finish(&mut self.contents[choice]);
                self.usage.finished(&finished, reader.n_thought());
                self.reasons[choice] = Some(reason(finished.reason(), reader));
            }
        }
    }

    fn broken_off(mut self, error: Error) -> Failure {
        let failure = Failure::from(self.spelling.error(error));
        if !self.usage.has_tokens() {
            return failure;
        }
        let all = zip(zip(&mut self.readers, &mut self.contents), &self.reasons);
        for ((reader, content), _) in all.filter(|(_, reason)| reason.is_none()) {
            reader.finish(content);
            self.usage.thought(reader.n_thought());
        }
        match self.pieces() {
            Ok(partial) => failure.with_partial(partial),
            Err(_) => failure,
        }
    }

    fn pieces(self) -> Result<Pieces, Failure> {
        let Self { head, spelling, contents, reasons, usage, places, .. } = self;
        // Not by way of a value, which would write its own digits for a log-probability.
        let choices = zip(contents, reasons)
            .enumerate()
            .map(move |(index, (content, reason))| serde_json::to_string(&spelling.whole(index, content, reason)));
        Pieces::with_list(&head.of(S::OBJECT), "choices", choices, &Account { usage })
            .map(|pieces| pieces.in_places(places))
            .map_err(|error| Error::ModelFailed(error.to_string()).into())
    }
}

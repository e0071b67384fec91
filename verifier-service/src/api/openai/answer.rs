//! Answers: the same events either become one object at the end, or a chunk each as they come.
//!
//! The two endpoints spell their continuations differently and agree about everything else, so each is a [`Spelling`]
//! and all else stands here.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures::StreamExt;
use serde::Serialize;
use specfleet_protocol::v1::FinishReason;

use super::{
    content::{Content, Form, Reader},
    events::{Event, Events},
    failure::Failure,
    logprobs,
    partial::Partial,
    parts::Sought,
    usage::Usage,
};
use crate::error::Error;

/// How an endpoint spells continuations.
pub(super) trait Spelling: Send + 'static {
    /// `object` of a whole answer.
    const OBJECT: &'static str;
    /// `object` of a chunk.
    const CHUNK: &'static str;
    /// What the ids of its answers begin with.
    const ID_PREFIX: &'static str;
    /// A whole continuation.
    type Choice: Serialize;
    /// A part of one.
    type Piece: Serialize;

    /// What it tells from the text.
    fn sought(&self) -> Option<Arc<Sought>> {
        None
    }
    fn whole(&self, index: usize, content: Content, reason: &'static str) -> Self::Choice;
    /// What comes before everything else.
    fn opening(&self, index: usize) -> Option<Self::Piece>;
    /// Text that comes before that of the tokens.
    fn echo(&self, index: usize) -> Option<&str>;
    fn piece(&self, index: usize, content: Content) -> Self::Piece;
    fn ending(&self, index: usize, reason: &'static str) -> Self::Piece;
}

/// What every object of an answer begins with.
#[derive(Clone, Debug)]
pub(super) struct Head {
    id: String,
    created: u64,
    model: String,
    system_fingerprint: String,
}

impl Head {
    pub(super) fn new<S: Spelling>(request_id: &str, model: &str, system_fingerprint: String) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("{}{request_id}", S::ID_PREFIX),
            created: since_epoch.as_secs(),
            model: model.to_owned(),
            system_fingerprint,
        }
    }
}

/// An object of an answer.
#[derive(Debug, Serialize)]
pub(super) struct Envelope<'a, Choice> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    system_fingerprint: &'a str,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
}

impl<'a, Choice> Envelope<'a, Choice> {
    pub(super) fn new(head: &'a Head, object: &'static str, choices: Vec<Choice>, usage: Option<&'a Usage>) -> Self {
        let Head { id, created, model, system_fingerprint } = head;
        Self { id, object, created: *created, model, system_fingerprint, choices, usage }
    }
}

/// The whole answer, as JSON.
pub(super) async fn collect<S: Spelling>(
    mut events: Events,
    head: &Head,
    form: &Form,
    spelling: &S,
) -> Result<String, Failure> {
    let content =
        |index| Content { tokens: form.content().tokens, ..Content::text(spelling.echo(index).unwrap_or_default()) };
    let mut contents: Vec<Content> = (0..form.n_choices).map(content).collect();
    let mut choices: Vec<Option<S::Choice>> = (0..form.n_choices).map(|_| None).collect();
    let (mut readers, mut usage) = (form.readers(), Usage::default());
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| {
            let all = readers.iter_mut().zip(&mut contents).zip(&choices);
            for ((reader, content), _) in all.filter(|(_, ended)| ended.is_none()) {
                reader.finish(content);
                usage.thought(reader.n_thought());
            }
            let partial = Partial { head, spelling, choices: &mut choices, contents: &mut contents, usage: &usage };
            Failure::from(error).with_partial(partial.verified())
        });
        match event? {
            Event::Started { n_prompt, n_reused, .. } => usage.started(n_prompt, n_reused),
            Event::Committed { choice, prompt, tokens } => {
                usage.committed(tokens.len());
                let prompt = form.scored_prompt(&prompt);
                for sibling in form.siblings(choice) {
                    if let Some(scored) = &mut contents[sibling].tokens {
                        scored.extend(prompt.iter().cloned());
                    }
                }
                form.extend(&mut readers[choice], &mut contents[choice], tokens);
            }
            Event::Finished { choice, finished } => {
                let (reader, mut content) = (&mut readers[choice], std::mem::take(&mut contents[choice]));
                reader.finish(&mut content);
                usage.finished(&finished, reader.n_thought());
                choices[choice] = Some(spelling.whole(choice, content, reason(finished.reason(), reader)));
            }
        }
    }
    let choices = choices.into_iter().flatten().collect();
    let envelope = Envelope::new(head, S::OBJECT, choices, Some(&usage));
    // Not by way of a value, which would write its own digits for a log-probability.
    serde_json::to_string(&envelope).map_err(|error| Error::ModelFailed(error.to_string()).into())
}

/// Turns events into the chunks of a stream.
pub(super) struct Chunks<S> {
    head: Head,
    form: Form,
    spelling: S,
    /// Whether the last chunk is an account.
    with_usage: bool,
    usage: Usage,
    /// Characters that each continuation's text has so far.
    offsets: Vec<usize>,
    readers: Vec<Reader>,
    /// Continuations that are not finished.
    n_open: usize,
}

impl<S: Spelling> Chunks<S> {
    pub(super) fn new(head: Head, form: Form, spelling: S, with_usage: bool) -> Self {
        let (offsets, readers, n_open) = (vec![0; form.n_choices], form.readers(), form.n_choices);
        Self { head, form, spelling, with_usage, usage: Usage::default(), offsets, readers, n_open }
    }

    /// Calls `write` with each chunk that an event is worth. Says whether the answer is complete.
    pub(super) fn push<E>(
        &mut self,
        event: Event,
        mut write: impl FnMut(&Envelope<'_, S::Piece>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut pieces = Vec::new();
        match event {
            Event::Started { first_choice, n_prompt, n_reused } => {
                self.usage.started(n_prompt, n_reused);
                for choice in self.form.siblings(first_choice) {
                    pieces.extend(self.spelling.opening(choice));
                    if !self.form.with_logprobs {
                        pieces.extend(self.echo(choice, Content::default()));
                    }
                }
            }
            Event::Committed { choice, prompt, tokens } => {
                self.usage.committed(tokens.len());
                if !prompt.is_empty() {
                    let prompt = self.form.scored_prompt(&prompt);
                    for sibling in self.form.siblings(choice) {
                        let tokens = Some(prompt.clone());
                        pieces.extend(self.echo(sibling, Content { tokens, ..Content::default() }));
                    }
                }
                let mut content = self.form.content();
                self.form.extend(&mut self.readers[choice], &mut content, tokens);
                pieces.extend(self.piece(choice, content));
            }
            Event::Finished { choice, finished } => {
                let mut content = Content::default();
                self.readers[choice].finish(&mut content);
                pieces.extend(self.piece(choice, content));
                let reader = &self.readers[choice];
                self.usage.finished(&finished, reader.n_thought());
                self.n_open -= 1;
                pieces.push(self.spelling.ending(choice, reason(finished.reason(), reader)));
            }
        }
        for piece in pieces {
            write(&Envelope::new(&self.head, S::CHUNK, vec![piece], None))?;
        }
        let is_complete = self.n_open == 0;
        if is_complete && self.with_usage {
            write(&Envelope::new(&self.head, S::CHUNK, Vec::new(), Some(&self.usage)))?;
        }
        Ok(is_complete)
    }

    fn echo(&mut self, choice: usize, content: Content) -> Option<S::Piece> {
        let text = Content::text(self.spelling.echo(choice)?);
        self.piece(choice, Content { parts: text.parts, ..content })
    }

    fn piece(&mut self, choice: usize, content: Content) -> Option<S::Piece> {
        if content.is_empty() {
            return None;
        }
        let offset = self.offsets[choice];
        self.offsets[choice] += logprobs::n_chars(content.tokens.as_deref());
        Some(self.spelling.piece(choice, Content { offset, ..content }))
    }
}

fn reason(reason: FinishReason, reader: &Reader) -> &'static str {
    match reason {
        FinishReason::Length => "length",
        FinishReason::Stop | FinishReason::Unspecified if reader.has_called() => "tool_calls",
        FinishReason::Stop | FinishReason::Unspecified => "stop",
    }
}

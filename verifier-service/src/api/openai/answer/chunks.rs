//! An answer as a stream of chunks.

use std::sync::Arc;

use serde::Serialize;

use super::{
    super::{
        content::{Content, Form, Reader},
        events::CallEvent,
        logprobs::{Scored, ScoredTokens},
        usage::Usage,
    },
    Head, Named, Spelling, reason,
};

/// Turns events into chunks.
pub(in super::super) struct Chunks<S> {
    writer: Arc<Writer<S>>,
    form: Form,
    /// Whether the last chunk is an account.
    with_usage: bool,
    usage: Usage,
    /// Characters that each continuation's text has so far.
    offsets: Vec<usize>,
    readers: Vec<Reader>,
    /// Continuations that are not finished.
    n_open: usize,
}

/// What all chunks of an answer have in common.
struct Writer<S> {
    head: Head,
    spelling: S,
}

/// A chunk that is written when its turn comes: an event can be worth many, each with a scored prompt in it.
pub(in super::super) struct Chunk<S> {
    writer: Arc<Writer<S>>,
    choice: usize,
    part: Part,
}

enum Part {
    Opening,
    /// The prompt's text, with its tokens if they are scored.
    Echo(Option<Arc<[Scored]>>),
    Content(Content),
    Ending(&'static str),
    Account(Box<Usage>),
}

#[derive(Serialize)]
struct Written<'a, Piece> {
    #[serde(flatten)]
    head: Named<'a>,
    choices: Vec<Piece>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
}

impl<S: Spelling> Chunks<S> {
    pub(in super::super) fn new(head: Head, form: Form, spelling: S, with_usage: bool) -> Self {
        Self {
            with_usage,
            usage: Usage::default(),
            offsets: (0..form.n_choices).map(|index| form.n_echoed(spelling.echo(index))).collect(),
            readers: form.readers(),
            n_open: form.n_choices,
            form,
            writer: Arc::new(Writer { head, spelling }),
        }
    }

    pub(in super::super) fn spelling(&self) -> &S {
        &self.writer.spelling
    }

    /// Whether all continuations are finished.
    pub(in super::super) fn are_complete(&self) -> bool {
        self.n_open == 0
    }

    /// The chunks that an event is worth.
    pub(in super::super) fn push(&mut self, event: CallEvent) -> Vec<Chunk<S>> {
        let mut parts = Vec::new();
        match event {
            CallEvent::Started { first_choice, n_prompt, n_reused } => {
                self.usage.started(n_prompt, n_reused);
                for choice in self.form.siblings(first_choice) {
                    parts.push((choice, Part::Opening));
                    if !self.form.with_logprobs {
                        parts.push((choice, Part::Echo(None)));
                    }
                }
            }
            CallEvent::Committed { choice, prompt, tokens } => {
                self.usage.committed(tokens.len());
                if !prompt.is_empty() {
                    let prompt = self.form.scored_prompt(&prompt, self.spelling().echo(choice).unwrap_or_default());
                    parts.extend(self.form.siblings(choice).map(|sibling| (sibling, Part::Echo(Some(prompt.clone())))));
                }
                let mut content = self.form.content();
                self.form.extend(&mut self.readers[choice], &mut content, tokens);
                parts.extend(self.content(choice, content));
            }
            CallEvent::Finished { choice, finished } => {
                let mut content = Content::default();
                self.readers[choice].finish(&mut content);
                parts.extend(self.content(choice, content));
                let reader = &self.readers[choice];
                self.usage.finished(&finished, reader.n_thought());
                self.n_open -= 1;
                parts.push((choice, Part::Ending(reason(finished.reason(), reader))));
            }
        }
        if self.are_complete() && self.with_usage {
            parts.push((0, Part::Account(Box::new(std::mem::take(&mut self.usage)))));
        }
        let chunk = |(choice, part)| Chunk { writer: self.writer.clone(), choice, part };
        parts.into_iter().map(chunk).collect()
    }

    fn content(&mut self, choice: usize, content: Content) -> Option<(usize, Part)> {
        if content.is_empty() {
            return None;
        }
        let offset = self.offsets[choice];
        self.offsets[choice] += content.tokens.as_ref().map_or(0, ScoredTokens::n_chars);
        Some((choice, Part::Content(Content { offset, ..content })))
    }
}

impl<S: Spelling> Chunk<S> {
    /// Its JSON; `None` if the endpoint has nothing to say here.
    pub(in super::super) fn write(self) -> Option<serde_json::Result<String>> {
        let Self { writer, choice, part } = self;
        let spelling = &writer.spelling;
        let piece = match part {
            Part::Account(usage) => return Some(writer.object(Vec::<S::Piece>::new(), Some(&usage))),
            Part::Opening => spelling.opening(choice)?,
            Part::Echo(prompt) => {
                let tokens = prompt.map(ScoredTokens::of_prompt);
                let content = Content { tokens, ..Content::text(spelling.echo(choice)?) };
                if content.is_empty() {
                    return None;
                }
                spelling.piece(choice, content)
            }
            Part::Content(content) => spelling.piece(choice, content),
            Part::Ending(reason) => spelling.ending(choice, reason),
        };
        Some(writer.object(vec![piece], None))
    }
}

impl<S: Spelling> Writer<S> {
    fn object(&self, choices: Vec<S::Piece>, usage: Option<&Usage>) -> serde_json::Result<String> {
        serde_json::to_string(&Written { head: self.head.of(S::CHUNK), choices, usage })
    }
}

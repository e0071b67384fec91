//! The machine that takes a text apart: one place after the other, as far as the text goes.

use std::sync::Arc;

use super::{
    CallPiece, Calls, Parts, Sought,
    arguments::Arguments,
    ends::{self, Stop},
};
use crate::dialect::CallForm;

/// Takes a text apart.
#[derive(Debug)]
pub(in crate::api::openai) struct Splitter {
    sought: Arc<Sought>,
    place: Place,
    /// Text that may still become something else.
    held: String,
    /// Line breaks that come next belong to the tag before.
    after_tag: bool,
    /// So they do behind a call, unless text follows them.
    after_call: bool,
    n_calls: usize,
    n_tokens: usize,
    n_thought: usize,
}

/// Where in a text.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At the beginning: thoughts may follow.
    Start,
    Thoughts,
    /// At the beginning of an answer that can be a call as a whole.
    Answer,
    Text,
    /// Behind the tag that opens a call, which is held with the line breaks before it: so many bytes.
    Head(usize),
    Arguments(Arguments),
    /// Behind the arguments.
    Tail,
}

impl Splitter {
    /// At the beginning of a continuation.
    pub(in crate::api::openai) fn new(sought: Arc<Sought>) -> Self {
        let are_open = sought.thoughts.as_ref().map(|thoughts| thoughts.are_open);
        let mut splitter = Self {
            sought,
            place: if are_open == Some(true) { Place::Thoughts } else { Place::Start },
            held: String::new(),
            after_tag: are_open == Some(true),
            after_call: false,
            n_calls: 0,
            n_tokens: 0,
            n_thought: 0,
        };
        if are_open.is_none() {
            splitter.enter_answer();
        }
        splitter
    }

    /// Takes the text of the next token.
    pub(in crate::api::openai) fn push(&mut self, text: &str) -> Parts {
        self.n_tokens += 1;
        self.held.push_str(text);
        self.go_on(false)
    }

    /// The text is over.
    pub(in crate::api::openai) fn finish(&mut self) -> Parts {
        self.go_on(true)
    }

    /// Tokens up to the one that ended the thoughts.
    pub(in crate::api::openai) fn n_thought(&self) -> usize {
        if matches!(self.place, Place::Thoughts) { self.n_tokens } else { self.n_thought }
    }

    /// Whether there were calls, and none was cut short.
    pub(in crate::api::openai) fn has_called(&self) -> bool {
        self.n_calls > 0 && !matches!(self.place, Place::Arguments(_))
    }

    fn go_on(&mut self, is_over: bool) -> Parts {
        let mut parts = Parts::default();
        while self.step(&mut parts, is_over) {}
        parts
    }

    /// Goes on by one place; says whether there is more to see.
    fn step(&mut self, parts: &mut Parts, is_over: bool) -> bool {
        match self.place {
            Place::Start => self.start(is_over),
            Place::Thoughts => self.think(parts, is_over),
            Place::Answer => self.answer(parts, is_over),
            Place::Text => self.text(parts, is_over),
            Place::Head(n_before) => self.head(n_before, parts, is_over),
            Place::Arguments(arguments) => self.arguments(arguments, parts),
            Place::Tail => self.tail(is_over),
        }
    }

    fn start(&mut self, is_over: bool) -> bool {
        let open = self.sought.thoughts.as_ref().map_or("", |thoughts| thoughts.open.text);
        let start = self.held.trim_start();
        if let Some(rest) = start.strip_prefix(open) {
            self.held = rest.to_owned();
            self.after_tag = true;
            return self.enter(Place::Thoughts);
        }
        let may_follow = open.starts_with(start) && !is_over;
        !may_follow && self.enter_answer()
    }

    fn think(&mut self, parts: &mut Parts, is_over: bool) -> bool {
        let sought = self.sought.clone();
        let close = sought.thoughts.as_ref().map_or("", |thoughts| thoughts.close.text);
        self.drop_line_breaks();
        let Some(at) = self.held.find(close) else {
            let n_held = if is_over { 0 } else { n_undecided(&self.held, close) };
            parts.thoughts.push_str(&self.take(self.held.len() - n_held));
            return false;
        };
        let before = self.take(at);
        parts.thoughts.push_str(before.trim_end_matches('\n'));
        self.held.drain(..close.len());
        self.after_tag = true;
        self.n_thought = self.n_tokens;
        self.enter_answer()
    }

    /// Where a call is the whole answer.
    fn answer(&mut self, parts: &mut Parts, is_over: bool) -> bool {
        let tag = match self.form() {
            Some(CallForm::Llama { tag: Some(tag) }) => tag.text,
            _ => "",
        };
        self.drop_line_breaks();
        let start = self.held.trim_start();
        let may_be_tag = start.len() < tag.len() && tag.starts_with(start) && !is_over;
        let n_tag = if start.starts_with(tag) { tag.len() } else { 0 };
        let n_before = self.held.len() - start.len() + n_tag;
        !may_be_tag && self.head(n_before, parts, is_over)
    }

    fn text(&mut self, parts: &mut Parts, is_over: bool) -> bool {
        let open = match self.form() {
            Some(CallForm::Hermes { open, .. }) => Some(open.text),
            _ => None,
        };
        self.drop_line_breaks();
        if let Some((open, at)) = open.and_then(|open| Some((open, self.held.find(open)?))) {
            let n_text = self.held[..at].trim_end_matches('\n').len();
            parts.text.push_str(&self.take(n_text));
            return self.enter(Place::Head(at - n_text + open.len()));
        }
        if is_over && self.after_call && self.held.trim_start_matches('\n').is_empty() {
            return false;
        }
        let n_held = open.filter(|_| !is_over).map_or(0, |open| n_undecided(&self.held, open));
        let released = self.take(self.held.len() - n_held);
        self.after_call &= released.is_empty();
        parts.text.push_str(&released);
        false
    }

    /// Behind `n_before` bytes that are dropped if a call follows, and text otherwise.
    fn head(&mut self, n_before: usize, parts: &mut Parts, is_over: bool) -> bool {
        let sought = self.sought.clone();
        let Some(Calls { form, names }) = &sought.calls else { return self.enter(Place::Text) };
        match ends::head(&self.held[n_before..], form.arguments_key(), names) {
            Ok(head) => {
                self.held.drain(..n_before + head.len);
                parts.calls.push(CallPiece { index: self.n_calls, name: Some(head.name), arguments: String::new() });
                self.n_calls += 1;
                self.enter(Place::Arguments(Arguments::default()))
            }
            Err(Stop::Short) if !is_over => false,
            Err(_) => {
                parts.text.push_str(&self.take(n_before));
                self.after_call = false;
                self.enter(Place::Text)
            }
        }
    }

    fn arguments(&mut self, mut arguments: Arguments, parts: &mut Parts) -> bool {
        let end = arguments.end_in(&self.held);
        let piece = self.take(end.unwrap_or(self.held.len()));
        if !piece.is_empty() {
            parts.add(CallPiece { index: self.n_calls - 1, name: None, arguments: piece });
        }
        self.place = if end.is_some() { Place::Tail } else { Place::Arguments(arguments) };
        end.is_some()
    }

    fn tail(&mut self, is_over: bool) -> bool {
        let close = match self.form() {
            Some(CallForm::Hermes { close, .. }) => close.text,
            _ => "",
        };
        match ends::tail(&self.held, close) {
            Ok(len) => {
                self.held.drain(..len);
                self.after_call = true;
                self.enter(Place::Text)
            }
            Err(Stop::Short) => {
                if is_over {
                    self.held.clear();
                }
                false
            }
            Err(Stop::Wrong) => self.enter(Place::Text),
        }
    }

    fn form(&self) -> Option<&CallForm> {
        self.sought.calls.as_ref().map(|calls| &calls.form)
    }

    /// True, so that a step can end with it.
    fn enter(&mut self, place: Place) -> bool {
        self.place = place;
        true
    }

    fn enter_answer(&mut self) -> bool {
        let may_be_call = matches!(self.form(), Some(CallForm::Llama { .. }));
        self.enter(if may_be_call { Place::Answer } else { Place::Text })
    }

    /// The first bytes of what is held.
    fn take(&mut self, n_bytes: usize) -> String {
        let rest = self.held.split_off(n_bytes);
        std::mem::replace(&mut self.held, rest)
    }

    fn drop_line_breaks(&mut self) {
        if self.after_tag {
            let n_dropped = self.held.len() - self.held.trim_start_matches('\n').len();
            self.held.drain(..n_dropped);
            self.after_tag = self.held.is_empty();
        }
    }
}

/// Bytes at the end of a text that may belong to a tag: its beginning, and line breaks before.
fn n_undecided(text: &str, tag: &str) -> usize {
    let n_tag = (1..tag.len()).rev().find(|&n| text.ends_with(&tag[..n])).unwrap_or(0);
    let before = &text[..text.len() - n_tag];
    text.len() - before.trim_end_matches('\n').len()
}

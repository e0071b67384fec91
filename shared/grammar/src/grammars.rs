//! Compiles forms, one at a time, and remembers the last ones.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{Error, Form, Matcher, Vocabulary};

/// Forms that are remembered.
const MOST_REMEMBERED: usize = 64;
/// Bytes of their texts together. What a form is compiled to takes some ten times as much, and a little for each.
const MOST_BYTES: usize = 1 << 20;

/// The grammars of one vocabulary.
///
/// Clients ask for the same few forms again and again, so the last ones stay compiled. At most one is being compiled at a
/// time: that can take some hundred milliseconds, and the cores have a model to run.
pub struct Grammars {
    vocabulary: Vocabulary,
    compiling: Mutex<()>,
    recent: Mutex<Recent>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Grammars")
            .field("remembered", &lock(&self.recent).entries.len())
            .finish_non_exhaustive()
    }
}

impl Grammars {
    /// With nothing compiled yet.
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, compiling: Mutex::new(()), recent: Mutex::default() }
    }

    /// A matcher at the beginning of a form. Blocks while another form is compiled; not for a thread that others wait for.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::TooDeep`] and [`Error::Unusable`], all of them for the form's author.
    pub fn compile(&self, form: &Form) -> Result<Matcher, Error> {
        if let Some(matcher) = lock(&self.recent).find(form) {
            return Ok(matcher);
        }
        let _turn = lock(&self.compiling);
        // Whoever had the turn before may have wanted the same.
        if let Some(matcher) = lock(&self.recent).find(form) {
            return Ok(matcher);
        }
        let matcher = self.vocabulary.compile(form)?;
        let separate = matcher.separate();
        lock(&self.recent).remember(form.clone(), matcher);
        Ok(separate)
    }
}

/// Nothing is left half done by a panic: entries are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiled forms, the most recently used last.
#[derive(Default)]
struct Recent {
    entries: VecDeque<(Form, Matcher)>,
    n_bytes: usize,
}

impl Recent {
    fn find(&mut self, form: &Form) -> Option<Matcher> {
        let index = self.entries.iter().position(|(known, _)| known == form)?;
        let entry = self.entries.remove(index)?;
        let matcher = entry.1.separate();
        self.entries.push_back(entry);
        Some(matcher)
    }

    fn remember(&mut self, form: Form, matcher: Matcher) {
        self.n_bytes += form.source().len();
        self.entries.push_back((form, matcher));
        while self.entries.len() > MOST_REMEMBERED || self.n_bytes > MOST_BYTES {
            let Some((form, _)) = self.entries.pop_front() else { break };
            self.n_bytes -= form.source().len();
        }
    }
}

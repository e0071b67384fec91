//! Compiles forms, one at a time, and remembers the last ones.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Error, Form, Matcher, Vocabulary,
    places::{Occupancy, Places},
};

/// Outputs that there may be at a time, unless somebody says otherwise: 2 GiB at the worst.
pub const DEFAULT_PLACES: usize = 128;

/// Forms that are remembered.
const MOST_REMEMBERED: usize = 64;
/// Memory of all of them together.
const MOST_REMEMBERED_BYTES: usize = 64 << 20;

/// The grammars of one vocabulary.
///
/// Clients ask for the same few forms again and again, so the last ones stay compiled. At most one is being compiled at a
/// time: that can take some hundred milliseconds, and the cores have a model to run.
pub struct Grammars {
    vocabulary: Vocabulary,
    places: Arc<Places>,
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
    /// With nothing compiled yet, for [`DEFAULT_PLACES`] outputs at a time.
    pub fn new(vocabulary: Vocabulary) -> Self {
        let places = Places::new(DEFAULT_PLACES);
        Self { vocabulary, places, compiling: Mutex::new(()), recent: Mutex::default() }
    }

    /// For so many outputs at a time.
    #[must_use]
    pub fn with_places(self, n_places: usize) -> Self {
        Self { places: Places::new(n_places), ..self }
    }

    /// A matcher at the beginning of a form. It holds places for `n_outputs`, of which each clone takes one over, and which
    /// are given back by whoever has them when he is dropped; so it is for one output, or to be cloned for each of them.
    /// Blocks while another form is compiled; not for a thread that others wait for.
    ///
    /// # Errors
    /// [`Error::Full`] at once; [`Error::TooLong`], [`Error::TooDeep`] and [`Error::Unusable`], all of them for the form's
    /// author.
    pub fn compile(&self, form: &Form, n_outputs: usize) -> Result<Matcher, Error> {
        let place = self.places.take(n_outputs)?;
        Ok(self.start(form)?.separate(place))
    }

    /// How many outputs there are and may be.
    pub fn occupancy(&self) -> Occupancy {
        self.places.occupancy()
    }

    /// The beginning of a form, for copies: what it shares with the one that is remembered must not grow.
    fn start(&self, form: &Form) -> Result<Matcher, Error> {
        if let Some(start) = lock(&self.recent).find(form) {
            return Ok(start);
        }
        let _turn = lock(&self.compiling);
        // Whoever had the turn before may have wanted the same.
        if let Some(start) = lock(&self.recent).find(form) {
            return Ok(start);
        }
        let start = self.vocabulary.compile(form)?;
        lock(&self.recent).remember(form, start.clone());
        Ok(start)
    }
}

/// Nothing is left half done by a panic: entries are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiled forms, the most recently used last.
#[derive(Default)]
struct Recent {
    entries: VecDeque<Entry>,
    n_bytes: usize,
}

struct Entry {
    form: Form,
    start: Matcher,
    n_bytes: usize,
}

impl Recent {
    fn find(&mut self, form: &Form) -> Option<Matcher> {
        let index = self.entries.iter().position(|entry| entry.form == *form)?;
        let entry = self.entries.remove(index)?;
        let start = entry.start.clone();
        self.entries.push_back(entry);
        Some(start)
    }

    fn remember(&mut self, form: &Form, mut start: Matcher) {
        let n_bytes = start.n_bytes();
        self.n_bytes += n_bytes;
        self.entries.push_back(Entry { form: form.clone(), start, n_bytes });
        while self.entries.len() > MOST_REMEMBERED || self.n_bytes > MOST_REMEMBERED_BYTES {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.n_bytes -= oldest.n_bytes;
        }
    }
}

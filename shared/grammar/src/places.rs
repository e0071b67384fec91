//! How many outputs of a given form may there be at a time? The state of each may take [`MOST_BYTES`](crate::MOST_BYTES), so
//! that this bounds the memory of all.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::Error;

/// The places of all outputs.
#[derive(Debug)]
pub(crate) struct Places {
    n_places: usize,
    n_taken: AtomicUsize,
    n_refused: AtomicU64,
}

/// How many outputs of a given form there are and might be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Outputs that there may be at a time.
    pub n_places: usize,
    /// Places that are taken: outputs, and those that somebody is about to begin.
    pub n_taken: usize,
    /// Forms that were refused with [`Error::Full`] so far.
    pub n_refused: u64,
}

/// Places that are taken, until it is dropped. A clone takes over one of them, while there is one.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    n: AtomicUsize,
}

impl Places {
    pub(crate) fn new(n_places: usize) -> Arc<Self> {
        Arc::new(Self { n_places, n_taken: AtomicUsize::new(0), n_refused: AtomicU64::new(0) })
    }

    /// Takes `n` places, or none.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub(crate) fn take(self: &Arc<Self>, n: usize) -> Result<Place, Error> {
        let take = |n_taken: usize| n_taken.checked_add(n).filter(|&n_taken| n_taken <= self.n_places);
        match self.n_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Place { places: self.clone(), n: AtomicUsize::new(n) }),
            Err(_) => {
                self.n_refused.fetch_add(1, Ordering::Relaxed);
                Err(Error::Full { n_places: self.n_places })
            }
        }
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        let (n_taken, n_refused) = (self.n_taken.load(Ordering::Relaxed), self.n_refused.load(Ordering::Relaxed));
        Occupancy { n_places: self.n_places, n_taken, n_refused }
    }
}

impl Clone for Place {
    fn clone(&self) -> Self {
        let one_less = |n: usize| n.checked_sub(1);
        let has_one = self.n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        Self { places: self.places.clone(), n: AtomicUsize::new(has_one.into()) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.n_taken.fetch_sub(*self.n.get_mut(), Ordering::Relaxed);
    }
}

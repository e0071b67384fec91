//! How many outputs of a given form may there be at a time? The state of each may take [`MOST_BYTES`](crate::MOST_BYTES), so
//! that this bounds the memory of all.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::Error;

/// The places of all outputs.
#[derive(Debug)]
pub(crate) struct Places {
    n_places: usize,
    n_taken: AtomicUsize,
}

/// Places that are taken, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    n: usize,
}

impl Places {
    pub(crate) fn new(n_places: usize) -> Arc<Self> {
        Arc::new(Self { n_places, n_taken: AtomicUsize::new(0) })
    }

    /// Takes `n` places, or none.
    ///
    /// # Errors
    /// [`Error::Full`].
    pub(crate) fn take(self: &Arc<Self>, n: usize) -> Result<Place, Error> {
        let take = |n_taken: usize| n_taken.checked_add(n).filter(|&n_taken| n_taken <= self.n_places);
        match self.n_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Place { places: self.clone(), n }),
            Err(_) => Err(Error::Full { n_places: self.n_places }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.n_taken.fetch_sub(self.n, Ordering::Relaxed);
    }
}

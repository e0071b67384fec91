//! How much memory a decoder takes at its peak.
//!
//! "A length field that claims gigabytes is refused" can only be tested by counting: such a field costs nothing visible as
//! long as the system hands out memory that nobody touches. So every program that links this crate allocates through a
//! counter. It counts all threads together, so measurements must not overlap: [`Measurement`] holds a lock.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Nothing here needs as much: beyond this the process ends, before the machine's memory does.
const MOST_BYTES: usize = 4 << 30;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a decoder may take for an input.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Whatever the input.
    pub fixed: usize,
    /// For each byte of the input.
    pub per_byte: usize,
}

impl Allowance {
    /// Bytes for an input of `n_bytes`.
    pub fn of(self, n_bytes: usize) -> usize {
        self.fixed + self.per_byte * n_bytes
    }
}

/// A stretch of time in which memory is measured, and nothing else is.
#[derive(Debug)]
pub struct Measurement {
    _alone: MutexGuard<'static, ()>,
}

impl Measurement {
    /// Waits until no other measurement is under way.
    pub fn start() -> Self {
        Self { _alone: ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Runs `work`, and says by how much the memory in use grew over what it was, at the most.
    pub fn of<T>(&self, work: impl FnOnce() -> T) -> (T, usize) {
        let before = IN_USE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let result = work();
        (result, PEAK.load(Relaxed).saturating_sub(before))
    }
}

/// The system's allocator, counted.
struct Counting;

impl Counting {
    fn grow(n_bytes: usize) -> bool {
        let in_use = IN_USE.fetch_add(n_bytes, Relaxed) + n_bytes;
        PEAK.fetch_max(in_use, Relaxed);
        let is_sane = in_use < MOST_BYTES;
        if !is_sane {
            IN_USE.fetch_sub(n_bytes, Relaxed);
        }
        is_sane
    }
}

// SAFETY: every call goes to the system's allocator with the arguments it came with, or returns null, by which an allocator
// says that there is no memory. The counters are atomic and allocate nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !Self::grow(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the system's too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !Self::grow(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may exist side by side while the content is copied.
        if !Self::grow(new_size) {
            return ptr::null_mut();
        }
        // SAFETY: as above.
        let moved = unsafe { System.realloc(pointer, layout, new_size) };
        IN_USE.fetch_sub(if moved.is_null() { new_size } else { layout.size() }, Relaxed);
        moved
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_counted_also_if_it_is_given_back() {
        let measurement = Measurement::start();
        let (length, peak) = measurement.of(|| {
            let large = vec![1_u8; 1 << 20];
            drop(large);
            vec![1_u8; 1 << 10].len()
        });
        assert_eq!(length, 1 << 10);
        assert!((1 << 20..2 << 20).contains(&peak), "{peak}");
    }

    #[test]
    fn memory_that_is_never_touched_counts() {
        let measurement = Measurement::start();
        let (capacity, peak) = measurement.of(|| Vec::<u8>::with_capacity(1 << 30).capacity());
        assert!(peak >= capacity, "{peak}");
    }
}

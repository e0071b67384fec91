//! One output array that several workers write at once, each its own part.
#![allow(unsafe_code)]

use std::{marker::PhantomData, ops::Range};

/// A mutable slice whose parts are handed out to several threads.
///
/// Columns of a row-major matrix cannot be split into Rust slices, yet workers that each own some
/// columns never touch the same element. Who asks for a part promises that.
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the wrapper only hands out parts through `part` and `pointer`, whose callers promise
// that no element is reached from two threads; moving a `&mut T` to a thread needs `T: Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// The elements of `range`.
    ///
    /// # Safety
    /// While the part lives, no other part or pointer reaches an element of `range`.
    #[expect(clippy::mut_from_ref, reason = "the caller promises disjoint parts")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "part {range:?} of an array of {} elements",
            self.len
        );
        // SAFETY: within the borrowed slice (asserted), and not reached otherwise (caller).
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The address of the first element, for writes to columns that the caller owns.
    pub(crate) fn pointer(&self) -> *mut T {
        self.start
    }
}

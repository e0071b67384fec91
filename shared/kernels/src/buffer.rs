//! Memory for large arrays that are read front to back at every step.
//!
//! Weights are streamed at the speed of the memory, which small pages spoil twice: the processor
//! runs out of address translations, and its prefetchers stop at every page's end. So buffers
//! come from the system in whole pages, with the wish for huge ones. Pages also give the
//! alignment that 64-byte loads like.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use bytemuck::Pod;
use memmap2::MmapMut;

/// A fixed-length array of plain numbers, page-aligned and at first zero.
pub struct AlignedBuffer<E> {
    pages: MmapMut,
    len: usize,
    element: PhantomData<E>,
}

impl<E: Pod> AlignedBuffer<E> {
    /// An array of `len` zeros. Memory is taken as it is first written.
    ///
    /// # Panics
    /// When the system refuses the memory, as any allocation would.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let n_bytes = (len * size_of::<E>()).max(1);
        let pages =
            MmapMut::map_anon(n_bytes).unwrap_or_else(|error| panic!("cannot allocate {n_bytes} bytes: {error}"));
        // A wish only: a kernel without huge pages refuses, and small ones work as well.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        Self { pages, len, element: PhantomData }
    }
}

impl<E: Pod> Deref for AlignedBuffer<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        bytemuck::cast_slice(&self.pages[..self.len * size_of::<E>()])
    }
}

impl<E: Pod> DerefMut for AlignedBuffer<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        bytemuck::cast_slice_mut(&mut self.pages[..self.len * size_of::<E>()])
    }
}

impl<E> fmt::Debug for AlignedBuffer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

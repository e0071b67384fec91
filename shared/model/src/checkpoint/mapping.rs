//! Files mapped into memory, so that weights are read once, where they are needed, without a copy of the whole file.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::error::Error;

/// A read-only view of a file.
pub(super) struct Mapping {
    path: PathBuf,
    map: Mmap,
}

impl Mapping {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::io("open", path, source))?;
        // SAFETY: the mapping is read-only and private to this process. What Rust cannot rule out is that another
        // process changes the file meanwhile; a model file in use must not be edited in place, and every reader of
        // mapped files relies on that. Bytes are only ever viewed as plain numbers, for which any pattern is valid,
        // and every length and offset read from them is checked before use.
        let map = unsafe { Mmap::map(&file) }.map_err(|source| Error::io("map", path, source))?;
        Ok(Self { path: path.to_owned(), map })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

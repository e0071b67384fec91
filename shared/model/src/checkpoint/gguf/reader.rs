//! A cursor over untrusted bytes: nothing is read past the end, and errors say where.

use std::path::Path;

use super::super::error::Error;

/// A little-endian cursor.
pub(super) struct Reader<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, offset: 0 }
    }

    pub(super) fn at(path: &'a Path, bytes: &'a [u8], offset: usize) -> Self {
        Self { path, bytes, offset }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn file_len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn n_left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// The next `n` bytes. `what` names them in the error.
    pub(super) fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], Error> {
        let left = self.bytes.get(self.offset..).unwrap_or_default();
        let Some(taken) = left.get(..n) else {
            return Err(self.damaged(format!(
                "{what} at offset {} needs {n} bytes, but the file ends after {} more",
                self.offset,
                left.len()
            )));
        };
        self.offset += n;
        Ok(taken)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        self.take(4, what).map(|bytes| u32::from_le_bytes(copy(bytes)))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        self.take(8, what).map(|bytes| u64::from_le_bytes(copy(bytes)))
    }

    /// A number of things of at least `least_bytes` each. One that the rest of the file cannot hold is refused here,
    /// before anyone reserves memory for it.
    pub(super) fn count(&self, count: u64, least_bytes: usize, what: &str) -> Result<usize, Error> {
        usize::try_from(count).ok().filter(|count| *count <= self.n_left() / least_bytes).ok_or_else(|| {
            self.damaged(format!(
                "at offset {} it announces {count} {what}, more than the remaining {} bytes can hold",
                self.offset,
                self.n_left()
            ))
        })
    }

    /// A length-prefixed UTF-8 string.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a str, Error> {
        let start = self.offset;
        let len = self.u64(what)?;
        let len = self.count(len, 1, &format!("bytes of {what}"))?;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged(format!("{what} at offset {start} is not valid UTF-8")))
    }

    pub(super) fn damaged(&self, problem: impl Into<String>) -> Error {
        Error::damaged(self.path, problem)
    }
}

/// The first `N` bytes as an array; zeros where there are fewer (callers have just taken `N`).
pub(super) fn copy<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

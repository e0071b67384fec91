//! The small files of a model folder (JSON, templates), which are read whole.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::error::Error;

/// 256 MiB. The largest tokenizers have 35 MB; what is larger is another file under this name.
const MOST_BYTES: u64 = 256 << 20;

/// The content of a file, or `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    // Before it is opened: a device or a pipe under this name would never end.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::io("open", path, source)),
    };
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(Error::damaged(path, format!("it is no file of up to {MOST_BYTES} bytes")));
    }
    fs::read(path).map(Some).map_err(|source| Error::io("read", path, source))
}

/// The content of a JSON file, or `None` if there is no such file.
pub(super) fn read_json(path: &Path) -> Result<Option<serde_json::Value>, Error> {
    let parsed = read(path)?.map(|bytes| serde_json::from_slice(&bytes)).transpose();
    parsed.map_err(|error| Error::damaged(path, format!("it is not valid JSON: {error}")))
}

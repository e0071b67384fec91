//! A folder that appears as a whole or not at all: it is written beside its place and then renamed.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Error;
use crate::chat_template::ChatTemplate;
use crate::checkpoint::Checkpoint;
use crate::tokenizer::Tokenizer;

/// All that a folder of ours may hold.
const FILES: [&str; 6] = [
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];

/// A half-written folder. It is removed when dropped.
pub(super) struct Staging {
    folder: PathBuf,
}

impl Staging {
    /// In the same parent as `out`, so that a rename is enough to publish it.
    pub(super) fn beside(out: &Path) -> Result<Self, Error> {
        let folder = sibling(out, "partial");
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
        }
        fs::create_dir(&folder).map_err(failed("create", &folder))?;
        Ok(Self { folder })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn write_json(&self, name: &str, value: &Value) -> Result<u64, Error> {
        self.write(name, format!("{value:#}\n").as_bytes())
    }

    /// Writes a file to the disk, not only to the system's memory; gives its size.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<u64, Error> {
        let path = self.path(name);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
        written.map_err(failed("write", &path))?;
        Ok(content.len() as u64)
    }

    /// Puts the folder in its place. An earlier one steps aside first and returns if that fails.
    pub(super) fn publish(self, out: &Path) -> Result<(), Error> {
        let aside = sibling(out, "previous");
        let had_previous = out.exists();
        if had_previous {
            fs::rename(out, &aside).map_err(failed("rename", out))?;
        }
        if let Err(error) = fs::rename(&self.folder, out) {
            if had_previous {
                fs::rename(&aside, out).map_err(failed("restore", out))?;
            }
            return Err(failed("rename", &self.folder)(error));
        }
        if had_previous {
            fs::remove_dir_all(&aside).map_err(failed("remove", &aside))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After publishing there is nothing left to remove; before, a leftover is only untidy.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Refuses to replace a folder that holds anything this program would not have written.
pub(super) fn refuse_foreign(out: &Path) -> Result<(), Error> {
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", out)(error)),
    };
    for entry in entries {
        let name = entry.map_err(failed("read", out))?.file_name().to_string_lossy().into_owned();
        if !FILES.contains(&name.as_str()) {
            return Err(Error::Occupied { path: out.to_owned(), found: name });
        }
    }
    Ok(())
}

/// What other libraries need to know beside `tokenizer.json`.
pub(super) fn tokenizer_config(target: &Checkpoint, tokenizer: &Tokenizer, template: Option<&ChatTemplate>) -> Value {
    let spelling = |id| tokenizer.spelling(id).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (begin, end) = match template.map(ChatTemplate::special_tokens) {
        Some(special) => (Some(special.begin.clone()), Some(special.end.clone())),
        None => {
            (tokenizer.begin_token().and_then(spelling), tokenizer.end_tokens().first().copied().and_then(spelling))
        }
    };
    let mut config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": target.config().context_length,
        "clean_up_tokenization_spaces": false,
    });
    for (key, token) in [("bos_token", begin), ("eos_token", end)] {
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            config[key] = token.into();
        }
    }
    config
}

/// A hidden name of this process beside `out`.
fn sibling(out: &Path, role: &str) -> PathBuf {
    let name = out.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
    out.with_file_name(format!(".{name}.{role}-{}", std::process::id()))
}

fn failed(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Write { action, path: path.clone(), source }
}

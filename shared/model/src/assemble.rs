//! Completes a draft that was trained on top of its target.
//!
//! Training a small draft with the target's embedding frozen means that the embedding need not travel with it: the
//! draft's file holds only its own layers, norm and head. To be loaded like any model it needs the rest again. This
//! writes a complete Hugging Face folder: the draft's tensors, the target's embedding, a configuration of the target's
//! dimensions with the draft's number of layers, and the target's tokenizer and chat template.
//!
//! The folder appears as a whole or not at all, and the same inputs give the same bytes.

mod draft;
mod folder;

use std::path::{Path, PathBuf};

use draft::Draft;
use folder::Staging;

use crate::checkpoint::{self, Checkpoint};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Layers of the draft.
    pub n_layers: usize,
    /// Rows of its output head.
    pub n_head_rows: usize,
    /// Size of its weights on disk, in bytes.
    pub n_bytes: u64,
}

/// Why the draft cannot be completed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target, or the result, cannot be used as a model.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The target's tokenizer cannot be written.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::Error),
    /// The draft's tensors do not go with the target.
    #[error("{path} does not fit the target: {}; was it trained for another model?", problems.join("; "), path = path.display())]
    Misfit {
        /// The draft's file.
        path: PathBuf,
        /// Everything that does not fit.
        problems: Vec<String>,
    },
    /// The output folder holds other things, which are not ours to replace.
    #[error("{path} already holds {found}, which this program did not write; choose an empty folder", path = path.display())]
    Occupied {
        /// The output folder.
        path: PathBuf,
        /// The first foreign entry.
        found: String,
    },
    /// Writing failed; nothing is left behind.
    #[error("cannot {action} {path}: {source}; check that there is space and permission", path = path.display())]
    Write {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The weights cannot be put into a safetensors file.
    #[error("cannot write the weights: {0}")]
    Serialize(String),
}

/// Writes the folder `out` from a target (a `.gguf` file or a folder) and a draft's safetensors file. A folder that an
/// earlier call wrote is replaced.
///
/// # Errors
/// If the draft does not fit the target, or the folder cannot be written. `out` is then as it was.
pub fn assemble(target: &Path, draft: &Path, out: &Path) -> Result<Assembled, Error> {
    let target = Checkpoint::open(target)?;
    let draft = Draft::open(draft, &target)?;
    folder::refuse_foreign(out)?;
    let staging = Staging::beside(out)?;
    staging.write_json("config.json", &checkpoint::config_to_json(draft.config(), target.generation()))?;
    staging.write_json("generation_config.json", &target.generation().to_json())?;
    let n_bytes = staging.write("model.safetensors", &draft.weights()?)?;
    let tokenizer = target.tokenizer()?;
    tokenizer.save(&staging.path("tokenizer.json"))?;
    let template = target.chat_template()?;
    staging.write_json("tokenizer_config.json", &folder::tokenizer_config(&target, &tokenizer, template.as_ref()))?;
    if let Some(template) = template {
        staging.write("chat_template.jinja", template.source().as_bytes())?;
    }
    // The result must load before it takes the place of an earlier one.
    let written = Checkpoint::open(staging.folder())?;
    let assembled = Assembled { n_layers: written.config().n_layers, n_head_rows: written.n_head_rows(), n_bytes };
    drop(written);
    staging.publish(out)?;
    Ok(assembled)
}

#[cfg(test)]
mod tests;

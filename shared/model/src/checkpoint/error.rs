//! Why a checkpoint cannot be used, and what to do about it.

use std::path::{Path, PathBuf};

/// A checkpoint that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted: "open", "read", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Neither a `.gguf` file nor a folder.
    #[error(
        "{path} is not a model: expected a .gguf file, or a folder with config.json and model.safetensors",
        path = path.display()
    )]
    UnknownForm {
        /// The path that was given.
        path: PathBuf,
    },
    /// The bytes do not follow the format; usually a download that was cut off.
    #[error("{path} is damaged: {problem}; fetch the file again and compare its size", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected, with the byte offset where there is one.
        problem: String,
    },
    /// Well-formed, but something this program does not do.
    #[error("{path}: {feature} is not supported; {remedy}", path = path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The feature, by its own name.
        feature: String,
        /// What would work.
        remedy: String,
    },
    /// Files, keys or tensors that should be there and are not, or have the wrong shape.
    #[error("{path} is incomplete: {}", problems.join("; "), path = path.display())]
    Incomplete {
        /// The file or folder.
        path: PathBuf,
        /// Everything that is wrong.
        problems: Vec<String>,
    },
    /// The tensor asked for does not exist.
    #[error("the checkpoint has no tensor named {name}")]
    NoSuchTensor {
        /// Its Hugging Face name.
        name: String,
    },
    /// The tokenizer cannot be used.
    #[error("{path}: {source}", path = path.display())]
    Tokenizer {
        /// Where it came from.
        path: PathBuf,
        /// What is wrong with it.
        source: crate::tokenizer::Error,
    },
    /// The chat template cannot be used.
    #[error("{path}: {source}", path = path.display())]
    ChatTemplate {
        /// Where it came from.
        path: PathBuf,
        /// What is wrong with it.
        source: crate::chat_template::Error,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn unsupported(path: &Path, feature: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), feature: feature.into(), remedy: remedy.into() }
    }

    pub(crate) fn incomplete(path: &Path, problems: Vec<String>) -> Self {
        Self::Incomplete { path: path.to_owned(), problems }
    }
}

//! A model on disk, whatever its form.
//!
//! Models travel in two forms: one GGUF file (quantised, with its own names and its own row order), or a folder as
//! Hugging Face writes it (`config.json`, safetensors, `tokenizer.json`). The rest of the code must not care. A
//! [`Checkpoint`] therefore speaks one language: Hugging Face tensor names, `[out, in]` row-major values in bf16 or
//! f32, query and key rows in the rotate-half order, and one [`Config`].
//!
//! Opening checks everything that can be checked without reading the weights: every tensor the configuration implies
//! must be there with the right shape, and all that is wrong is reported in one error. Weights are mapped, not read.

mod config;
mod config_json;
mod dequantise;
mod draft_vocab;
mod error;
mod generation;
mod gguf;
mod huggingface;
mod layout;
mod mapping;
mod rope;
mod safetensors;
mod small_file;
mod tensor;

use std::path::Path;
use std::sync::Arc;

pub use config::{Architecture, Config};
pub(crate) use config_json::write as config_to_json;
pub(crate) use draft_vocab::check as check_draft_vocab;
pub use error::Error;
pub use generation::GenerationDefaults;
pub use layout::ExpectedTensor;
pub use rope::{Rope, RopeScaling};
pub use safetensors::SafetensorsFiles;
use specfleet_speculation::TokenId;
pub use tensor::{HostTensor, Values};

use crate::chat_template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// The name of the tensor that lists which target ids the rows of a reduced head speak for.
pub const DRAFT_VOCAB: &str = "draft_vocab";

/// A model on disk, opened and checked.
pub struct Checkpoint {
    label: String,
    config: Config,
    generation: GenerationDefaults,
    draft_vocab: Option<Arc<[TokenId]>>,
    source: Box<dyn Source>,
}

/// What each file form has to answer.
trait Source: Send + Sync {
    fn shape(&self, name: &str) -> Option<Vec<usize>>;
    fn tensor(&self, name: &str) -> Result<HostTensor<'_>, Error>;
    fn token_ids(&self, name: &str) -> Result<Option<Vec<i64>>, Error>;
    fn tokenizer(&self, config: &Config, generation: &GenerationDefaults) -> Result<Tokenizer, Error>;
    fn chat_template(&self) -> Result<Option<ChatTemplate>, Error>;
}

impl Checkpoint {
    /// Opens a `.gguf` file or a Hugging Face folder.
    ///
    /// # Errors
    /// Says what is wrong with the file and what to do: not there, damaged, of an architecture or quantisation that is
    /// not supported, or with tensors that are missing or misshapen (all of them are listed).
    pub fn open(path: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(|source| Error::io("open", path, source))?;
        let (config, generation, source): (Config, GenerationDefaults, Box<dyn Source>) = if metadata.is_dir() {
            let (config, generation, folder) = huggingface::open(path)?;
            (config, generation, Box::new(folder))
        } else if path.extension().is_some_and(|extension| extension == "gguf") {
            let (config, generation, file) = gguf::open(path)?;
            (config, generation, Box::new(file))
        } else {
            return Err(Error::UnknownForm { path: path.to_owned() });
        };
        config.validate(path)?;
        let draft_vocab = draft_vocab::read(source.as_ref(), config.vocab_size)?;
        if draft_vocab.is_some() && config.tied_embeddings {
            let problem = format!(
                "it lists head rows in {DRAFT_VOCAB}, but its config ties the head to the embedding, which has a row for \
                 every id; set tie_word_embeddings to false"
            );
            return Err(Error::damaged(path, problem));
        }
        let expected = config.layout(draft_vocab.as_ref().map_or(config.vocab_size, |ids| ids.len()));
        layout::check(&expected, path, |name| source.shape(name))?;
        Ok(Self { label: label_of(path), config, generation, draft_vocab, source })
    }

    /// The architecture in numbers.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A name for people: the file's stem or the folder's name.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What the model was published with: sampling defaults and the ids that begin and end a text.
    pub fn generation(&self) -> &GenerationDefaults {
        &self.generation
    }

    /// For a head of fewer rows than the vocabulary: the target's id each row speaks for, ascending.
    pub fn draft_vocab(&self) -> Option<Arc<[TokenId]>> {
        self.draft_vocab.clone()
    }

    /// Rows of the output head: the reduced vocabulary's size, or the whole one's.
    pub fn n_head_rows(&self) -> usize {
        self.draft_vocab.as_ref().map_or(self.config.vocab_size, |ids| ids.len())
    }

    /// Every tensor the configuration implies, in a fixed order. All of them are present.
    pub fn layout(&self) -> Vec<ExpectedTensor> {
        self.config.layout(self.n_head_rows())
    }

    /// Whether the checkpoint holds a tensor of that (Hugging Face) name.
    pub fn contains(&self, name: &str) -> bool {
        self.source.shape(name).is_some()
    }

    /// The values of a tensor, by Hugging Face name. Borrowed from the mapped file where no conversion is needed.
    ///
    /// # Errors
    /// If there is no such tensor, or its element type is not supported.
    pub fn tensor(&self, name: &str) -> Result<HostTensor<'_>, Error> {
        self.source.tensor(name)
    }

    /// The tokenizer that the model was trained with.
    ///
    /// # Errors
    /// If it is missing, damaged, or of a kind that is not supported.
    pub fn tokenizer(&self) -> Result<Tokenizer, Error> {
        self.source.tokenizer(&self.config, &self.generation)
    }

    /// The template that turns chat messages into a prompt, if the model has one.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn chat_template(&self) -> Result<Option<ChatTemplate>, Error> {
        self.source.chat_template()
    }
}

fn label_of(path: &Path) -> String {
    let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    name.map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(any(test, feature = "scripted"))]
pub mod fixture;
#[cfg(test)]
mod tests;

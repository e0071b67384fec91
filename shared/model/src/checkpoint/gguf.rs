//! GGUF: one file with metadata, vocabulary and quantised tensors, as llama.cpp reads it.
//!
//! The layout (version 2 and 3): magic, version, counts; then metadata as typed key-value pairs; then a table of
//! tensors (name, sizes, element type, offset); then the data, aligned. Everything in the file is a claim: lengths and
//! offsets are checked against the file's size before anything is allocated or read, and an error names the offset.

mod chat;
mod config;
mod metadata;
mod names;
mod reader;
mod tensors;
mod vocabulary;
mod weights;

use std::path::Path;

use metadata::Metadata;
use reader::Reader;
use tensors::TensorTable;

use super::Source;
use super::config::Config;
use super::error::Error;
use super::generation::GenerationDefaults;
use super::mapping::Mapping;
use super::tensor::HostTensor;
use crate::chat_template::ChatTemplate;
use crate::tokenizer::Tokenizer;

/// Where tensor data begins is rounded up to this, unless `general.alignment` says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;

/// An opened GGUF file.
pub(super) struct GgufFile {
    mapping: Mapping,
    metadata: Metadata,
    weights: weights::Weights,
}

/// Opens a file: metadata, configuration, table of tensors.
pub(super) fn open(path: &Path) -> Result<(Config, GenerationDefaults, GgufFile), Error> {
    let mapping = Mapping::open(path)?;
    let (metadata, table) = parse(path, mapping.bytes())?;
    let view = metadata.view(path, mapping.bytes());
    let config = config::read(&view, &table)?;
    let generation = vocabulary::generation_defaults(&view, config.vocab_size)?;
    let weights = weights::Weights::new(path, table, &config)?;
    Ok((config, generation, GgufFile { mapping, metadata, weights }))
}

/// Reads everything before the data.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Metadata, TensorTable), Error> {
    let mut reader = Reader::new(path, bytes);
    if reader.take(4, "the magic number")? != b"GGUF" {
        return Err(Error::damaged(path, "it does not begin with \"GGUF\""));
    }
    let version = reader.u32("the version")?;
    if !(2..=3).contains(&version) {
        let what = if version.swap_bytes() <= 3 { "a big-endian file".into() } else { format!("version {version}") };
        return Err(Error::unsupported(path, what, "convert the model to little-endian GGUF version 3"));
    }
    let n_tensors = reader.u64("the number of tensors")?;
    let n_entries = reader.u64("the number of metadata entries")?;
    let metadata = Metadata::parse(&mut reader, n_entries)?;
    let view = metadata.view(path, bytes);
    if view.unsigned("split.count")?.is_some_and(|count| count > 1) {
        let remedy = "join the parts into one file with llama.cpp's gguf-split tool (--merge)";
        return Err(Error::unsupported(path, "a model split over several files", remedy));
    }
    let alignment = view.unsigned("general.alignment")?.unwrap_or(DEFAULT_ALIGNMENT);
    let table = TensorTable::parse(&mut reader, n_tensors, alignment)?;
    Ok((metadata, table))
}

impl GgufFile {
    fn view(&self) -> metadata::View<'_> {
        self.metadata.view(self.mapping.path(), self.mapping.bytes())
    }
}

impl Source for GgufFile {
    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.weights.shape(name)
    }

    fn tensor(&self, name: &str) -> Result<HostTensor<'_>, Error> {
        self.weights.tensor(name, self.mapping.bytes())
    }

    /// GGUF files hold whole models only; no converter writes reduced heads.
    fn token_ids(&self, _name: &str) -> Result<Option<Vec<i64>>, Error> {
        Ok(None)
    }

    fn tokenizer(&self, _config: &Config, generation: &GenerationDefaults) -> Result<Tokenizer, Error> {
        let vocabulary = vocabulary::read(&self.view())?;
        Tokenizer::from_gguf(&vocabulary, generation)
            .map_err(|source| Error::Tokenizer { path: self.mapping.path().to_owned(), source })
    }

    fn chat_template(&self) -> Result<Option<ChatTemplate>, Error> {
        chat::template(&self.view())
    }
}

#[cfg(any(test, feature = "scripted"))]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

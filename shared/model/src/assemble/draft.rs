//! The draft's own tensors, checked against the target.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::View;
use specfleet_speculation::TokenId;

use super::Error;
use crate::checkpoint::{self, Checkpoint, Config, DRAFT_VOCAB, SafetensorsFiles};

const EMBEDDING: &str = "model.embed_tokens.weight";
const HEAD: &str = "lm_head.weight";

/// A draft's file beside its target.
pub(super) struct Draft<'a> {
    target: &'a Checkpoint,
    files: SafetensorsFiles,
    config: Config,
    draft_vocab: Option<Arc<[TokenId]>>,
    /// Names of the tensors to write, the embedding included.
    names: BTreeSet<String>,
}

impl<'a> Draft<'a> {
    pub(super) fn open(path: &Path, target: &'a Checkpoint) -> Result<Self, Error> {
        let files = SafetensorsFiles::open_file(path)?;
        let vocab_size = target.config().vocab_size;
        let draft_vocab = match files.token_ids(DRAFT_VOCAB)? {
            Some(ids) => Some(checkpoint::check_draft_vocab(&ids, vocab_size)?),
            None => None,
        };
        let config = Config {
            n_layers: n_layers(&files),
            tied_embeddings: files.shape(HEAD).is_none(),
            ..target.config().clone()
        };
        let draft = Self { target, files, config, draft_vocab, names: BTreeSet::new() };
        let names = draft.check(path)?;
        Ok(Self { names, ..draft })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The content of `model.safetensors`: everything in bf16, the list of head rows in int32.
    pub(super) fn weights(&self) -> Result<Vec<u8>, Error> {
        let mut tensors = Vec::new();
        for name in &self.names {
            let tensor = match self.files.shape(name) {
                Some(_) => self.files.tensor(name)?,
                None => self.target.tensor(name)?,
            };
            let bytes = bytemuck::cast_slice(&tensor.values.to_bf16()).to_vec();
            tensors.push((name.as_str(), Written { dtype: Dtype::BF16, shape: tensor.shape, bytes }));
        }
        if let Some(ids) = &self.draft_vocab {
            let bytes = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            tensors.push((DRAFT_VOCAB, Written { dtype: Dtype::I32, shape: vec![ids.len()], bytes }));
        }
        let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
        safetensors::serialize(tensors, Some(format)).map_err(|error| Error::Serialize(error.to_string()))
    }

    /// Compares the tensors that are there with those that the target's dimensions imply; reports all differences.
    fn check(&self, path: &Path) -> Result<BTreeSet<String>, Error> {
        let n_head_rows = self.draft_vocab.as_ref().map_or(self.config.vocab_size, |ids| ids.len());
        let mut problems = Vec::new();
        if self.config.n_layers == 0 {
            problems.push("it has no tensors named model.layers.0.*".to_owned());
        }
        if self.config.tied_embeddings && self.draft_vocab.is_some() {
            problems.push(format!("it has {DRAFT_VOCAB} but no {HEAD} for it"));
        }
        let mut names = BTreeSet::new();
        for expected in self.config.layout(n_head_rows) {
            match self.files.shape(&expected.name) {
                None if expected.name == EMBEDDING => {}
                None => problems.push(format!("{} is missing", expected.name)),
                Some(shape) if shape != expected.shape => {
                    problems.push(format!("{} has shape {shape:?} instead of {:?}", expected.name, expected.shape));
                }
                Some(_) => {}
            }
            names.insert(expected.name);
        }
        for name in self.files.names().filter(|name| *name != DRAFT_VOCAB && !names.contains(*name)) {
            problems.push(format!("{name} has no place in a model of the target's architecture"));
        }
        if problems.is_empty() { Ok(names) } else { Err(Error::Misfit { path: PathBuf::from(path), problems }) }
    }
}

/// One more than the highest layer that occurs in a name.
fn n_layers(files: &SafetensorsFiles) -> usize {
    let layer = |name: &str| name.strip_prefix("model.layers.")?.split_once('.')?.0.parse::<usize>().ok();
    // Each layer has several tensors, so a higher number than there are tensors is a gap at best.
    let highest = files.names().filter_map(layer).filter(|layer| *layer < files.names().count()).max();
    highest.map_or(0, |highest| highest + 1)
}

/// A tensor on its way to a file.
struct Written {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Written {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

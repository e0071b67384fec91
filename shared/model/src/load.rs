//! From a path to a model that runs: checkpoint, device, operators, KV memory.

use std::num::NonZeroUsize;
use std::path::Path;

use half::bf16;
use specfleet_kernels::Int8;

use crate::batch::{LanguageModel, ModelDescription};
use crate::chat_template::ChatTemplate;
use crate::checkpoint::{self, Checkpoint, Config, GenerationDefaults};
use crate::device;
use crate::kv_cache::BLOCK_TOKENS;
use crate::operators::fused::{self, Fused};
use crate::operators::libtorch::Libtorch;
use crate::operators::{Geometry, Operators as OperatorSet};
use crate::rope::RotaryTables;
use crate::tokenizer::Tokenizer;
use crate::transformer::{Reader, Transformer};

mod options;

pub use options::{Dtype, LoadOptions, Operators, UnknownName};

/// A model and what belongs to it.
pub struct Loaded {
    /// The model.
    pub model: Box<dyn LanguageModel>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template, if the checkpoint has one.
    pub chat_template: Option<ChatTemplate>,
    /// What its makers recommend for sampling, and where it ends.
    pub generation: GenerationDefaults,
    /// The name of the file or folder, for people.
    pub label: String,
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The checkpoint is missing, damaged, or of a kind that is not supported.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The fused operators were asked for by name and cannot run this model here.
    #[error("the fused operators cannot be used: {reason}; use --operators auto or libtorch")]
    FusedUnavailable {
        /// What is missing.
        reason: String,
    },
    /// 8-bit weights were asked for, of which only the fused operators know.
    #[error("int8 weights need the fused operators, which cannot be used: {reason}; use --dtype bf16")]
    Int8Unavailable {
        /// What is missing.
        reason: String,
    },
    /// KV memory for no token at all.
    #[error("KV memory for 0 tokens was asked for; give room for at least one sequence, e.g. {context_length} tokens")]
    NoKvMemory {
        /// The model's context length.
        context_length: usize,
    },
    /// The worker threads could not be started.
    #[error("the compute threads could not be started")]
    Threads(#[from] specfleet_kernels::pool::Error),
    /// libtorch refused an operation, most likely for lack of memory.
    #[error("libtorch failed while the model was loaded; is there enough memory for weights and KV cache?")]
    Libtorch(#[from] tch::TchError),
}

/// Loads the model at `path`: a `.gguf` file, or a folder with `config.json` and safetensors.
///
/// # Errors
/// See [`Error`]. Everything about the checkpoint is checked before its weights are read.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, Error> {
    let device = options.device.resolve()?; // first of all: it may load libtorch's CUDA half
    let checkpoint = Checkpoint::open(path)?;
    let config = checkpoint.config();
    if options.kv_tokens == 0 {
        return Err(Error::NoKvMemory { context_length: config.context_length });
    }
    let threads = options.threads.unwrap_or_else(device::default_threads);
    let geometry = geometry(config, device, options);
    tracing::info!(model = checkpoint.label(), path = %path.display(), layers = config.n_layers, "loading model");

    let model: Box<dyn LanguageModel> = match (use_fused(options, &geometry)?, options.dtype) {
        (false, _) => assemble(&checkpoint, Libtorch::new(geometry, threads.get())?, threads, options)?,
        (true, Dtype::Bf16) => assemble(&checkpoint, Fused::<bf16>::new(geometry, threads)?, threads, options)?,
        (true, Dtype::Int8) => assemble(&checkpoint, Fused::<Int8>::new(geometry, threads)?, threads, options)?,
        (true, Dtype::F32) => assemble(&checkpoint, Fused::<f32>::new(geometry, threads)?, threads, options)?,
    };
    Ok(Loaded {
        model,
        tokenizer: checkpoint.tokenizer()?,
        chat_template: checkpoint.chat_template()?,
        generation: checkpoint.generation().clone(),
        label: checkpoint.label().to_owned(),
    })
}

fn geometry(config: &Config, device: tch::Device, options: &LoadOptions) -> Geometry {
    // No sequence gets longer than the KV memory, however long the model's context is.
    let n_positions = config.context_length.min(options.n_blocks() * BLOCK_TOKENS);
    let frequencies = config.rope.inverse_frequencies(config.head_dim);
    Geometry {
        kind: options.dtype.kind(),
        device,
        n_heads: config.n_heads,
        n_kv_heads: config.n_kv_heads,
        head_dim: config.head_dim,
        norm_eps: config.rms_norm_eps,
        rotary: RotaryTables::new(&frequencies, n_positions),
    }
}

fn use_fused(options: &LoadOptions, geometry: &Geometry) -> Result<bool, Error> {
    match (options.operators, fused::obstacle(geometry)) {
        (Operators::Libtorch, _) if options.dtype == Dtype::Int8 => {
            Err(Error::Int8Unavailable { reason: "libtorch's operators were asked for".into() })
        }
        (_, Some(reason)) if options.dtype == Dtype::Int8 => Err(Error::Int8Unavailable { reason }),
        (Operators::Libtorch, _) => Ok(false),
        (_, None) => Ok(true),
        (Operators::Fused, Some(reason)) => Err(Error::FusedUnavailable { reason }),
        (Operators::Auto, Some(reason)) => {
            tracing::info!(reason, "using libtorch's operators, not the fused ones");
            Ok(false)
        }
    }
}

fn assemble<O: OperatorSet + 'static>(
    checkpoint: &Checkpoint,
    operators: O,
    threads: NonZeroUsize,
    options: &LoadOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    let started = std::time::Instant::now();
    let read = Reader::new(checkpoint, &operators, options.dtype).read()?;
    let config = checkpoint.config();
    let draft_vocab = checkpoint.draft_vocab();
    let device = match operators.geometry().device {
        tch::Device::Cuda(index) => format!("cuda:{index}"),
        _ => "cpu".to_owned(),
    };
    let description = ModelDescription {
        architecture: config.architecture.name().to_owned(),
        vocab_size: config.vocab_size,
        n_rows_of_head: draft_vocab.as_ref().map_or(config.vocab_size, |ids| ids.len()),
        draft_vocab,
        context_length: config.context_length,
        dtype: options.dtype.to_string(),
        device: format!("{device} ({})", operators.name()),
        step_weight_bytes: read.step_bytes,
        threads: threads.get(),
        weights_digest: read.digest,
    };
    let model = Transformer::new(operators, read.weights, description, options.n_blocks())?;
    let description = model.description();
    tracing::info!(
        model = checkpoint.label(),
        architecture = description.architecture,
        dtype = description.dtype,
        device = description.device,
        step_weight_megabytes = description.step_weight_bytes / 1_000_000,
        kv_tokens = options.n_blocks() * BLOCK_TOKENS,
        kv_megabytes = kv_bytes(config, options) / 1_000_000,
        seconds = started.elapsed().as_secs_f32(),
        "model loaded"
    );
    Ok(Box::new(model))
}

/// Memory that the KV cache takes when all of it is in use: keys and values of every layer.
fn kv_bytes(config: &Config, options: &LoadOptions) -> usize {
    let element_bytes = options.dtype.kind().elt_size_in_bytes();
    options.n_blocks() * BLOCK_TOKENS * 2 * config.n_layers * config.kv_width() * element_bytes
}

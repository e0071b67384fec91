//! Models for both services: from files on disk to rows of logits.
//!
//! # The way through
//!
//! ```text
//! path ── checkpoint ── config, tensors ──┐
//!              └─ tokenizer, chat_template │
//!                                         load ── Transformer (a LanguageModel)
//!                                                   ├─ kv_cache   which blocks belong to which sequence
//!                                                   ├─ batch      segments in, logits out
//!                                                   └─ operators  libtorch (reference) or fused (CPU)
//! ```
//!
//! Read [`batch`] first: it is what the services see of a model. [`kv_cache`] is how sequences share memory,
//! roll back and reuse prefixes. `transformer` is the forward pass, one screen of it, over the operators
//! that `operators` describes. [`mod@load`] puts all of it together.
//!
//! ```no_run
//! use specfleet_model::batch::{Segment, WantedLogits};
//! use specfleet_model::load::{LoadOptions, load};
//!
//! let mut loaded = load("SmolLM2-135M-Instruct.Q4_1.gguf".as_ref(), &LoadOptions::default())?;
//! let tokens = loaded.tokenizer.encode("The capital of France is", true)?;
//! let mut kv = loaded.model.kv().start(&tokens);
//! loaded.model.kv().reserve(&mut kv, tokens.len())?;
//! let segment = Segment { tokens: &tokens[kv.len()..], kv: &mut kv, logits: WantedLogits::Last };
//! let logits = loaded.model.forward(&mut [segment])?;
//! assert_eq!(logits.n_rows(), 1);
//! loaded.model.kv().release(kv);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Nothing here samples, sends or decides.** Logits go to `specfleet-speculation`, which never sees a
//! tensor.

pub mod assemble;
pub mod batch;
pub mod chat_template;
pub mod checkpoint;
pub mod device;
pub mod identity;
pub mod kv_cache;
pub mod load;
mod operators;
mod rope;
#[cfg(any(test, feature = "scripted"))]
pub mod scripted;
pub mod tokenizer;
mod transformer;

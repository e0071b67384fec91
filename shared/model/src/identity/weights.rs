//! A digest over weights as they were loaded.

use std::collections::BTreeMap;

use crate::checkpoint::Config;

/// Collects one digest per tensor, so that loaders may add tensors in any order, straight from their buffers. BLAKE3
/// hashes several gigabytes a second on one core: hashing costs less than reading the file.
pub struct WeightsHasher {
    config: String,
    tensors: BTreeMap<String, blake3::Hash>,
}

impl WeightsHasher {
    /// For a model of this configuration, which becomes part of the digest.
    pub fn new(config: &Config) -> Self {
        Self { config: config.canonical(), tensors: BTreeMap::new() }
    }

    /// Adds a tensor under its Hugging Face name, with its element type ("bf16", "f32", "u32"; "int8" for bf16 that is
    /// then rounded to 8 bits), its shape and its little-endian bytes before any packing: how a device lays weights out
    /// does not change the model.
    pub fn add(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
        let mut hasher = blake3::Hasher::new();
        // The description has no line break inside and the lengths follow from it, so the parts cannot run together.
        hasher.update(format!("{name} {dtype} {shape:?}\n").as_bytes());
        hasher.update(bytes);
        self.tensors.insert(name.to_owned(), hasher.finalize());
    }

    /// The digest over configuration and tensors.
    pub fn finish(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.config.as_bytes());
        for digest in self.tensors.values() {
            hasher.update(digest.as_bytes());
        }
        hasher.finalize().into()
    }
}

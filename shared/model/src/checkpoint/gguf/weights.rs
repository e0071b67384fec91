//! GGUF tensors under Hugging Face names, dequantised, with their rows in Hugging Face order.
//!
//! For the llama architecture, converters to GGUF reorder the query and key rows of each head, because llama.cpp
//! rotates neighbouring elements (0,1), (2,3), ... where Hugging Face rotates element `i` with `i + head_dim / 2`. The
//! Qwen architectures keep the Hugging Face order in GGUF too. Reading the rows in the wrong order gives a model that
//! still babbles but has lost its sense of position, so the order is undone here, at the one place that knows the form.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::super::config::{Architecture, Config};
use super::super::dequantise::Quantisation;
use super::super::error::Error;
use super::super::tensor::{HostTensor, Values, view};
use super::names::gguf_name;
use super::tensors::{TensorEntry, TensorTable};

/// The weights of a GGUF file.
pub(super) struct Weights {
    path: PathBuf,
    table: TensorTable,
    /// Head size, where query and key rows are interleaved.
    interleaved_head_dim: Option<usize>,
}

impl Weights {
    pub(super) fn new(path: &Path, table: TensorTable, config: &Config) -> Result<Self, Error> {
        let interleaved = config.architecture == Architecture::Llama;
        Ok(Self { path: path.to_owned(), table, interleaved_head_dim: interleaved.then_some(config.head_dim) })
    }

    /// The shape of a tensor by Hugging Face name.
    pub(super) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        Some(self.entry(name)?.shape.clone())
    }

    /// The values of a tensor by Hugging Face name; `bytes` are those of the file.
    pub(super) fn tensor<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<HostTensor<'a>, Error> {
        let entry = self.entry(name).ok_or_else(|| Error::NoSuchTensor { name: name.to_owned() })?;
        let data = &bytes[entry.span.clone()];
        let head_dim = self.interleaved_head_dim.filter(|_| is_rotated(name));
        if let Some(head_dim) = head_dim
            && !entry.shape[0].is_multiple_of(head_dim)
        {
            let problem =
                format!("{name} has {} rows, which is no multiple of the head size {head_dim}", entry.shape[0]);
            return Err(Error::incomplete(&self.path, vec![problem]));
        }
        let values = match (entry.quantisation, head_dim) {
            (Quantisation::F32, None) => Values::F32(view(data)),
            (Quantisation::Bf16, None) => Values::Bf16(view(data)),
            (_, None) => Values::F32(Cow::Owned(dequantise(entry, data, |row| row))),
            (_, Some(head_dim)) => {
                Values::F32(Cow::Owned(dequantise(entry, data, |row| interleaved_row(row, head_dim))))
            }
        };
        Ok(HostTensor { shape: entry.shape.clone(), values })
    }

    fn entry(&self, name: &str) -> Option<&TensorEntry> {
        self.table.tensors.get(&gguf_name(name)?)
    }
}

/// Where the file keeps row `row` (in Hugging Face order) of a query or key projection.
fn interleaved_row(row: usize, head_dim: usize) -> usize {
    let (head, within) = (row / head_dim, row % head_dim);
    let (half, pair) = (within / (head_dim / 2), within % (head_dim / 2));
    head * head_dim + 2 * pair + half
}

fn is_rotated(name: &str) -> bool {
    [".q_proj.", ".k_proj."].iter().any(|part| name.contains(part))
}

/// All rows in f32; row `r` of the result is row `source_row(r)` of the file. A vector (a bias) has rows of one value.
fn dequantise(entry: &TensorEntry, data: &[u8], source_row: impl Fn(usize) -> usize) -> Vec<f32> {
    let n_rows = entry.shape[0];
    let row_len: usize = entry.shape[1..].iter().product();
    let mut values = vec![0.0; n_rows * row_len];
    if entry.shape.len() == 1 {
        let mut in_file_order = vec![0.0; n_rows];
        entry.quantisation.dequantise(data, &mut in_file_order);
        for (row, value) in values.iter_mut().enumerate() {
            *value = in_file_order[source_row(row)];
        }
        return values;
    }
    let row_bytes = data.len() / n_rows;
    for (row, out) in values.chunks_exact_mut(row_len).enumerate() {
        let start = source_row(row) * row_bytes;
        entry.quantisation.dequantise(&data[start..start + row_bytes], out);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The converter's reshape: `[heads, 2, half] -> [heads, half, 2]`, spelled out for one head of six rows.
    #[test]
    fn interleaving_is_the_converters_order() {
        let rows: Vec<usize> = (0..6).map(|row| interleaved_row(row, 6)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5]);
        assert_eq!(interleaved_row(6 + 3, 6), 6 + 1, "heads are reordered one by one");
    }

    #[test]
    fn only_queries_and_keys_are_rotated() {
        assert!(is_rotated("model.layers.3.self_attn.q_proj.weight"));
        assert!(is_rotated("model.layers.3.self_attn.k_proj.bias"));
        assert!(!is_rotated("model.layers.3.self_attn.v_proj.weight"));
        assert!(!is_rotated("model.layers.3.self_attn.q_norm.weight"));
    }
}

//! The configuration in GGUF metadata.

use super::super::config::{Architecture, Config};
use super::super::dequantise::Quantisation;
use super::super::error::Error;
use super::super::rope::{Rope, RopeScaling};
use super::metadata::View;
use super::tensors::TensorTable;

/// Reads the configuration. Missing keys are reported all at once.
pub(super) fn read(view: &View<'_>, table: &TensorTable) -> Result<Config, Error> {
    let name = view.string("general.architecture")?.unwrap_or("(none)");
    let architecture = match name {
        "llama" => Architecture::Llama,
        "qwen2" => Architecture::Qwen2,
        "qwen3" => Architecture::Qwen3,
        other => {
            return Err(Error::unsupported(
                view.path(),
                format!("architecture {other:?}"),
                "use a model of architecture llama (Mistral too), qwen2 or qwen3",
            ));
        }
    };
    let mut keys = Keys { view, architecture: name, missing: Vec::new() };
    let hidden_size = keys.required("embedding_length")?;
    let n_heads = keys.required("attention.head_count")?;
    let head_dim = match keys.optional("attention.key_length")? {
        Some(size) => size,
        None => hidden_size.checked_div(n_heads).unwrap_or(0),
    };
    let config = Config {
        architecture,
        hidden_size,
        n_layers: keys.required("block_count")?,
        n_heads,
        n_kv_heads: keys.optional("attention.head_count_kv")?.unwrap_or(n_heads),
        head_dim,
        ffn_size: keys.required("feed_forward_length")?,
        vocab_size: table.tensors.get("token_embd.weight").map_or(0, |embedding| embedding.shape[0]),
        rms_norm_eps: keys.required_float("attention.layer_norm_rms_epsilon")? as f32,
        rope: Rope { theta: keys.float("rope.freq_base")?.unwrap_or(10_000.0), scaling: scaling(&keys, table)? },
        context_length: keys.required("context_length")?,
        tied_embeddings: !table.tensors.contains_key("output.weight"),
        qkv_bias: table.tensors.contains_key("blk.0.attn_q.bias"),
        output_bias: table.tensors.contains_key("blk.0.attn_output.bias"),
    };
    if !table.tensors.contains_key("token_embd.weight") {
        keys.missing.push("the tensor token_embd.weight".into());
    }
    if !keys.missing.is_empty() {
        let text = format!("the metadata lacks {}", keys.missing.join(", "));
        return Err(Error::incomplete(view.path(), vec![text]));
    }
    refuse_unbuilt(&keys, &config, table)?;
    Ok(config)
}

/// Looks up keys under the architecture's prefix and remembers those that were missing.
struct Keys<'a> {
    view: &'a View<'a>,
    architecture: &'a str,
    missing: Vec<String>,
}

impl Keys<'_> {
    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn required(&mut self, key: &str) -> Result<usize, Error> {
        let value = self.optional(key)?;
        Ok(value.unwrap_or_else(|| {
            self.missing.push(self.key(key));
            0
        }))
    }

    fn required_float(&mut self, key: &str) -> Result<f64, Error> {
        let value = self.float(key)?;
        Ok(value.unwrap_or_else(|| {
            self.missing.push(self.key(key));
            0.0
        }))
    }

    /// A number that does not fit a size becomes the largest one, which the configuration's check refuses.
    fn optional(&self, key: &str) -> Result<Option<usize>, Error> {
        let value = self.view.unsigned(&self.key(key))?;
        Ok(value.map(|value| usize::try_from(value).unwrap_or(usize::MAX)))
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Error> {
        self.view.float(&self.key(key))
    }
}

/// Llama 3 files carry a divisor per pair as a tensor; linear scaling is a key.
fn scaling(keys: &Keys<'_>, table: &TensorTable) -> Result<RopeScaling, Error> {
    if let Some(entry) = table.tensors.get("rope_freqs.weight") {
        if entry.quantisation != Quantisation::F32 {
            return Err(Error::damaged(keys.view.path(), "rope_freqs.weight is not in F32"));
        }
        let mut factors = vec![0.0; entry.shape.iter().product()];
        entry.quantisation.dequantise(keys.view.file_bytes(entry.span.clone()), &mut factors);
        return Ok(RopeScaling::Factors(factors));
    }
    let kind = keys.view.string(&keys.key("rope.scaling.type"))?;
    match kind {
        None | Some("none") => Ok(RopeScaling::None),
        Some("linear") => {
            let factor = keys.float("rope.scaling.factor")?.unwrap_or(1.0) as f32;
            Ok(if factor == 1.0 { RopeScaling::None } else { RopeScaling::Linear { factor } })
        }
        Some(other) => Err(Error::unsupported(
            keys.view.path(),
            format!("rope scaling {other:?}"),
            "use a model without rope scaling, or with linear or llama3 scaling",
        )),
    }
}

/// Features that change what the model computes and that are not built.
fn refuse_unbuilt(keys: &Keys<'_>, config: &Config, table: &TensorTable) -> Result<(), Error> {
    let path = keys.view.path();
    for part in ["rope.dimension_count", "attention.value_length"] {
        if let Some(size) = keys.optional(part)?.filter(|size| *size != config.head_dim) {
            return Err(Error::unsupported(
                path,
                format!("{} of {size} with heads of {}", keys.key(part), config.head_dim),
                "use a model whose keys and values have one size and are rotated whole",
            ));
        }
    }
    if keys.optional("expert_count")?.is_some_and(|count| count > 0) {
        return Err(Error::unsupported(path, "a mixture of experts", "use a dense model"));
    }
    if let Some(window) = keys.optional("attention.sliding_window")?
        && window > 0
        && window < config.context_length
    {
        return Err(Error::unsupported(
            path,
            format!("a sliding window of {window} positions in a context of {}", config.context_length),
            format!("set {} to {window}: within the window the computation is the same", keys.key("context_length")),
        ));
    }
    if table.tensors.contains_key("blk.0.ffn_down.bias") {
        let remedy = "use a model without a bias in its feed-forward layers";
        return Err(Error::unsupported(path, "a feed-forward bias", remedy));
    }
    Ok(())
}

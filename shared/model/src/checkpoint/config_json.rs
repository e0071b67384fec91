//! `config.json`: the architecture as Hugging Face writes it, read and written.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::config::{Architecture, Config};
use super::error::Error;
use super::generation::{GenerationDefaults, decimal};
use super::rope::{Rope, RopeScaling};

/// Name of our own rope type: a divisor per pair, as GGUF files carry it.
const FACTORS: &str = "frequency_factors";

/// Reads a configuration. Every missing key is reported at once; features that would change the computation and are
/// not built are refused by name rather than ignored.
pub(super) fn read(json: &Value, path: &Path) -> Result<Config, Error> {
    let model_type = json.get("model_type").and_then(Value::as_str).unwrap_or("(none)");
    let architecture = match model_type {
        "llama" | "mistral" => Architecture::Llama,
        "qwen2" => Architecture::Qwen2,
        "qwen3" => Architecture::Qwen3,
        other => {
            return Err(Error::unsupported(
                path,
                format!("model type {other:?}"),
                "use a model of type llama, mistral, qwen2 or qwen3",
            ));
        }
    };
    let mut keys = Keys { json, missing: Vec::new() };
    let hidden_size = keys.required("hidden_size");
    let n_heads = keys.required("num_attention_heads");
    let bias = json.get("attention_bias").and_then(Value::as_bool).unwrap_or(false);
    let config = Config {
        architecture,
        hidden_size,
        n_layers: keys.required("num_hidden_layers"),
        n_heads,
        n_kv_heads: keys.optional("num_key_value_heads").unwrap_or(n_heads),
        head_dim: keys.optional("head_dim").unwrap_or_else(|| hidden_size.checked_div(n_heads).unwrap_or(0)),
        ffn_size: keys.required("intermediate_size"),
        vocab_size: keys.required("vocab_size"),
        rms_norm_eps: keys.number("rms_norm_eps").unwrap_or(1e-6) as f32,
        rope: rope(json, path)?,
        context_length: keys.required("max_position_embeddings"),
        tied_embeddings: json.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
        qkv_bias: architecture == Architecture::Qwen2 || bias,
        output_bias: architecture != Architecture::Qwen2 && bias,
    };
    if keys.missing.is_empty() {
        refuse_unbuilt(json, &config, path)?;
        Ok(config)
    } else {
        let keys = keys.missing.join(", ");
        Err(Error::incomplete(path, vec![format!("these keys are missing or not positive integers: {keys}")]))
    }
}

/// Writes a configuration so that this reader, and the `transformers` library, read the same model.
pub(crate) fn write(config: &Config, generation: &GenerationDefaults) -> Value {
    let (model_type, class) = match config.architecture {
        Architecture::Llama => ("llama", "LlamaForCausalLM"),
        Architecture::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
        Architecture::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
    };
    let mut json = json!({
        "architectures": [class],
        "model_type": model_type,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn_size,
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "rms_norm_eps": decimal(config.rms_norm_eps),
        "rope_theta": config.rope.theta,
        "max_position_embeddings": config.context_length,
        "tie_word_embeddings": config.tied_embeddings,
        "torch_dtype": "bfloat16",
    });
    if config.architecture != Architecture::Qwen2 {
        json["attention_bias"] = config.qkv_bias.into();
    }
    if let Some(scaling) = rope_scaling_json(&config.rope.scaling) {
        json["rope_scaling"] = scaling;
    }
    if let Some(id) = generation.begin_token {
        json["bos_token_id"] = id.into();
    }
    if !generation.end_tokens.is_empty() {
        json["eos_token_id"] = generation.end_tokens.clone().into();
    }
    json
}

/// Looks keys up and remembers those that were missing.
struct Keys<'a> {
    json: &'a Value,
    missing: Vec<&'static str>,
}

impl Keys<'_> {
    fn required(&mut self, key: &'static str) -> usize {
        self.optional(key).unwrap_or_else(|| {
            self.missing.push(key);
            0
        })
    }

    fn optional(&self, key: &str) -> Option<usize> {
        self.json.get(key)?.as_u64()?.try_into().ok()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.json.get(key)?.as_f64()
    }
}

/// Features that change what the model computes and that are not built.
fn refuse_unbuilt(json: &Value, config: &Config, path: &Path) -> Result<(), Error> {
    let flag = |key: &str| json.get(key).and_then(Value::as_bool).unwrap_or(false);
    if let Some(activation) = json.get("hidden_act").and_then(Value::as_str).filter(|name| *name != "silu") {
        return Err(Error::unsupported(path, format!("hidden_act {activation:?}"), "use a model with silu"));
    }
    if flag("mlp_bias") {
        return Err(Error::unsupported(path, "mlp_bias", "use a model without a bias in its feed-forward layers"));
    }
    if json.get("quantization_config").is_some_and(|value| !value.is_null()) {
        let remedy = "use the unquantised folder, or a GGUF file of the model";
        return Err(Error::unsupported(path, "quantization_config", remedy));
    }
    if json.get("partial_rotary_factor").and_then(Value::as_f64).is_some_and(|factor| factor != 1.0) {
        return Err(Error::unsupported(path, "partial_rotary_factor", "use a model that rotates whole heads"));
    }
    // Qwen states a window and switches it off by a second key; Mistral's window counts as soon as it is stated.
    let switched_on = config.architecture == Architecture::Llama || flag("use_sliding_window");
    let window = json.get("sliding_window").and_then(Value::as_u64);
    if let Some(window) = window.filter(|window| switched_on && *window < config.context_length as u64) {
        return Err(Error::unsupported(
            path,
            format!("a sliding window of {window} positions in a context of {}", config.context_length),
            format!("set max_position_embeddings to {window}: within the window the computation is the same"),
        ));
    }
    Ok(())
}

/// Base and scaling: at the top level in most files, under `rope_parameters` in those that `transformers` 5 writes.
fn rope(json: &Value, path: &Path) -> Result<Rope, Error> {
    let object = |key: &str| json.get(key).and_then(Value::as_object);
    let parameters = object("rope_scaling").or_else(|| object("rope_parameters"));
    let nested = object("rope_parameters").and_then(|parameters| parameters.get("rope_theta"));
    let theta = [json.get("rope_theta"), nested].into_iter().flatten().find_map(Value::as_f64).unwrap_or(10_000.0);
    let scaling = parameters.map_or(Ok(RopeScaling::None), |parameters| rope_scaling(parameters, path))?;
    Ok(Rope { theta, scaling })
}

fn rope_scaling(parameters: &Map<String, Value>, path: &Path) -> Result<RopeScaling, Error> {
    let kind = parameters.get("rope_type").or_else(|| parameters.get("type")).and_then(Value::as_str);
    let number = |key: &str| {
        parameters.get(key).and_then(Value::as_f64).map(|value| value as f32).ok_or_else(|| {
            Error::incomplete(path, vec![format!("rope scaling of type {kind:?} needs the number {key}")])
        })
    };
    match kind {
        None | Some("default") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: number("factor")? }),
        Some("llama3") => Ok(RopeScaling::Llama3 {
            factor: number("factor")?,
            low_freq_factor: number("low_freq_factor")?,
            high_freq_factor: number("high_freq_factor")?,
            original_context: number("original_max_position_embeddings")?,
        }),
        Some(FACTORS) => {
            let factors = parameters.get("factors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            // A factor that is not a number becomes NaN, which the configuration's check refuses.
            Ok(RopeScaling::Factors(factors.iter().map(|factor| factor.as_f64().unwrap_or(f64::NAN) as f32).collect()))
        }
        Some(other) => Err(Error::unsupported(
            path,
            format!("rope scaling {other:?}"),
            "use a model without rope scaling, or with linear or llama3 scaling",
        )),
    }
}

fn rope_scaling_json(scaling: &RopeScaling) -> Option<Value> {
    match scaling {
        RopeScaling::None => None,
        RopeScaling::Linear { factor } => Some(json!({"rope_type": "linear", "factor": decimal(*factor)})),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => Some(json!({
            "rope_type": "llama3",
            "factor": decimal(*factor),
            "low_freq_factor": decimal(*low_freq_factor),
            "high_freq_factor": decimal(*high_freq_factor),
            "original_max_position_embeddings": *original_context as u64,
        })),
        RopeScaling::Factors(factors) => Some(json!({
            "rope_type": FACTORS,
            "factors": factors.iter().map(|factor| decimal(*factor)).collect::<Vec<_>>(),
        })),
    }
}

#[cfg(test)]
mod tests;

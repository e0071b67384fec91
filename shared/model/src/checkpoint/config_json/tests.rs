#![allow(clippy::unwrap_used)]

use super::*;

fn smol() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "rms_norm_eps": 1e-5,
        "rope_theta": 100000, "max_position_embeddings": 8192, "tie_word_embeddings": true,
        "sliding_window": null, "hidden_act": "silu",
    })
}

fn with(changes: Value) -> Result<Config, Error> {
    let mut json = smol();
    for (key, value) in changes.as_object().unwrap() {
        json[key] = value.clone();
    }
    read(&json, Path::new("config.json"))
}

#[test]
fn reads_what_transformers_writes() {
    let config = with(json!({})).unwrap();
    assert_eq!((config.head_dim, config.q_width(), config.kv_width()), (64, 576, 192));
    assert!(config.tied_embeddings && !config.qkv_bias && !config.output_bias);
    assert_eq!(config.rope, Rope { theta: 100_000.0, scaling: RopeScaling::None });

    let nested = json!({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}});
    assert_eq!(with(nested).unwrap().rope.theta, 5e5);
}

#[test]
fn qwen_differs_where_it_should() {
    let qwen2 = with(json!({"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": false})).unwrap();
    assert!(qwen2.qkv_bias && !qwen2.output_bias && !qwen2.has_qk_norm());
    let qwen3 = with(json!({"model_type": "qwen3", "head_dim": 128, "attention_bias": false})).unwrap();
    assert!(qwen3.has_qk_norm() && !qwen3.qkv_bias);
    assert_eq!(qwen3.q_width(), 9 * 128);
}

#[test]
fn all_missing_keys_are_named_at_once() {
    let error = read(&json!({"model_type": "llama", "hidden_size": 8}), Path::new("config.json")).unwrap_err();
    let text = error.to_string();
    for key in ["num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size", "max_position"] {
        assert!(text.contains(key), "{text}");
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    for (changes, name) in [
        (json!({"model_type": "mamba"}), "mamba"),
        (json!({"hidden_act": "gelu"}), "gelu"),
        (json!({"mlp_bias": true}), "mlp_bias"),
        (json!({"quantization_config": {"quant_method": "awq"}}), "quantization_config"),
        (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        (json!({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}), "yarn"),
        (json!({"model_type": "mistral", "sliding_window": 4096}), "sliding window of 4096"),
    ] {
        let text = with(changes).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("not supported"), "{text}");
    }
    assert!(with(json!({"model_type": "mistral", "sliding_window": 8192})).is_ok(), "a window as wide as the context");
}

#[test]
fn a_written_configuration_reads_back_the_same() {
    let scalings = [
        json!(null),
        json!({"type": "linear", "factor": 2.0}),
        json!({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}),
        json!({"rope_type": "frequency_factors", "factors": vec![1.5; 32]}),
    ];
    for scaling in scalings {
        for model_type in ["llama", "qwen2", "qwen3"] {
            let config = with(json!({"rope_scaling": scaling, "model_type": model_type})).unwrap();
            let written = write(&config, &GenerationDefaults::default());
            assert_eq!(read(&written, Path::new("config.json")).unwrap(), config);
        }
    }
}

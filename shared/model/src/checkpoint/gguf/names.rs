//! GGUF tensor names and their Hugging Face counterparts.

/// The GGUF name of a Hugging Face tensor, or `None` if GGUF has no such tensor.
pub(super) fn gguf_name(name: &str) -> Option<String> {
    match name {
        "model.embed_tokens.weight" => return Some("token_embd.weight".into()),
        "model.norm.weight" => return Some("output_norm.weight".into()),
        "lm_head.weight" => return Some("output.weight".into()),
        _ => {}
    }
    let (layer, part) = name.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let (part, kind) = part.rsplit_once('.')?;
    let part = match part {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
        _ => return None,
    };
    Some(format!("blk.{layer}.{part}.{kind}"))
}

#[cfg(test)]
mod tests {
    use super::gguf_name;

    #[test]
    fn names_map() {
        let name = |text| gguf_name(text).unwrap_or_default();
        assert_eq!(name("model.layers.12.self_attn.q_proj.bias"), "blk.12.attn_q.bias");
        assert_eq!(name("model.layers.0.post_attention_layernorm.weight"), "blk.0.ffn_norm.weight");
        assert_eq!(name("lm_head.weight"), "output.weight");
        assert_eq!(gguf_name("model.layers.x.mlp.up_proj.weight"), None);
        assert_eq!(gguf_name("draft_vocab"), None);
    }
}

"""Writes the golden checkpoints: tiny random models of every family and the logits that transformers computes.

Run it from anywhere with `pip install torch transformers safetensors gguf`; it replaces the folders beside it.
Weights are rounded to bf16, so that a model loaded as bf16 and one loaded as f32 have the same ones. Logits
are computed in f32.
"""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

HERE = Path(__file__).parent
VOCAB_SIZE = 128
END_TOKEN = 127
# Lengths that end inside a block of sixteen, on its edge, and after several.
SEQUENCE_LENGTHS = [53, 32, 17, 5]

SIZES = dict(
    vocab_size=VOCAB_SIZE,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    bos_token_id=None,
    eos_token_id=END_TOKEN,
    # Weights large enough for attention to be far from uniform.
    initializer_range=0.15,
    tie_word_embeddings=False,
)

LLAMA3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # So short that a head of 16 dimensions has frequencies that are kept, blended and scaled.
    "original_max_position_embeddings": 64,
}


def main():
    llama3 = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA3_SCALING))
    smollm2_sizes = SIZES | dict(
        hidden_size=144, intermediate_size=64, num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True
    )
    smollm2 = LlamaForCausalLM(LlamaConfig(**smollm2_sizes, rms_norm_eps=1e-5, rope_parameters=rope(100000.0)))
    mistral = MistralForCausalLM(
        MistralConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=rope(1000000.0), sliding_window=None)
    )
    qwen2 = Qwen2ForCausalLM(Qwen2Config(**SIZES, rope_parameters=rope(1000000.0)))
    # Heads wider than hidden_size / n_heads, as in the family's small models.
    qwen3 = Qwen3ForCausalLM(
        Qwen3Config(**SIZES | dict(tie_word_embeddings=True), head_dim=32, rope_parameters=rope(1000000.0))
    )

    write("llama3", llama3)
    write("smollm2", smollm2)
    write("mistral", mistral, dtype=torch.float32)
    write("qwen2", qwen2, max_shard_size="40KB")
    write("qwen3", qwen3)
    write_reduced_head("reduced-head", HERE / "llama3")
    write_gguf("smollm2.gguf", HERE / "smollm2", smollm2)


def rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


def write(name, model, dtype=torch.bfloat16, max_shard_size="5GB"):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(sum(name.encode()))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            # Norms around one and biases off zero, so that leaving one out shows.
            value = 1 + 0.3 * noise if "norm" in key else model.config.initializer_range * noise
            parameter.copy_(value.bfloat16().float())
    model = model.float().eval()

    golden = {}
    for index, length in enumerate(SEQUENCE_LENGTHS):
        tokens = torch.randint(VOCAB_SIZE, (1, length), generator=generator)
        with torch.no_grad():
            golden[f"logits.{index}"] = model(tokens).logits[0].contiguous()
        golden[f"tokens.{index}"] = tokens[0].int().contiguous()

    model.to(dtype).save_pretrained(folder, max_shard_size=max_shard_size)
    model.float()
    save_file(golden, folder / "logits.safetensors")
    tokenizer().save(str(folder / "tokenizer.json"))


def tokenizer():
    """One token for each of 126 bytes, one for two of them, and an end token."""
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())[: END_TOKEN - 1] + ["ab"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return tokenizer


def write_reduced_head(name, source):
    """The same model with a head for every third id only."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    ids = torch.arange(0, VOCAB_SIZE, 3)
    weights = load_file(folder / "model.safetensors")
    weights["lm_head.weight"] = weights["lm_head.weight"][ids].contiguous()
    save_file(weights | {"draft_vocab": ids.int()}, folder / "model.safetensors")
    golden = load_file(folder / "logits.safetensors")
    golden = {key: value[:, ids].contiguous() if "logits" in key else value for key, value in golden.items()}
    save_file(golden, folder / "logits.safetensors")


def write_gguf(name, folder, model):
    """A Llama as llama.cpp's converter writes it: other names, rows of queries and keys interleaved."""
    config = model.config
    writer = gguf.GGUFWriter(HERE / name, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(VOCAB_SIZE)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    pieces = sorted(vocabulary["model"]["vocab"], key=vocabulary["model"]["vocab"].get)
    writer.add_token_list(pieces + ["<|end|>"])
    writer.add_token_types([gguf.TokenType.NORMAL] * END_TOKEN + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(END_TOKEN)

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight":
            continue  # tied
        for projection, n_heads in [("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)]:
            if projection in key:
                halves = tensor.reshape(n_heads, 2, -1, tensor.shape[-1])
                tensor = halves.transpose(1, 2).reshape(tensor.shape)
        kind = gguf.GGMLQuantizationType.BF16 if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(np.ascontiguousarray(tensor.float().numpy()), kind)
        writer.add_tensor(names.get_name(key, try_suffixes=(".weight",)), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()

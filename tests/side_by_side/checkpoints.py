"""The peers' checkpoints: the very values that our verifier and our draft compute with, in the peers' formats.

The target is a GGUF file with coarse weights. Our verifier restores them to bf16 when it loads, so the peers get a file
of those bf16 values. The draft knows 8192 of the target's 49152 ids; the peers' speculation wants all of them. So its
head becomes a full one: the reduced head's rows in place and, elsewhere, copies of its quietest row, so that no row is
there that was never trained.
"""

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file, save_file

# The draft's row for this id of the target is the one that is chosen least.
QUIETEST_ID = 32544

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

# Of a block: names in GGUF files and in Hugging Face's.
BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def write_all(target_file, draft_folder, folder):
    """Writes target- and draft-{bf16,q8_0}.gguf, and the folders target/ and draft/."""
    folder = Path(folder)
    source = gguf.GGUFReader(target_file)
    heads = source.fields["llama.attention.head_count"].contents()
    kv_heads = source.fields["llama.attention.head_count_kv"].contents()
    rows_of = {"attn_q": heads, "attn_k": kv_heads}

    weights = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in source.tensors}
    # Rounded once, as our loader does, and only then to anything coarser.
    weights = {name: as_bf16(values) if values.ndim > 1 else values for name, values in weights.items()}
    write_gguf(source, weights, Type.BF16, folder / "target-bf16.gguf")
    write_gguf(source, weights, Type.Q8_0, folder / "target-q8_0.gguf")
    write_folder(
        {hugging_face_name(name): rows_apart(name, values, rows_of) for name, values in weights.items()},
        draft_folder,
        source.fields["llama.block_count"].contents(),
        folder / "target",
    )

    draft = load_file(Path(draft_folder) / "model.safetensors")
    known = draft.pop("draft_vocab").numpy().astype(np.int64)
    draft = {name: tensor.float().numpy() for name, tensor in draft.items()}
    draft["lm_head.weight"] = full_head(draft["lm_head.weight"], known, draft["model.embed_tokens.weight"].shape[0])
    n_blocks = sum(name.endswith("input_layernorm.weight") for name in draft)
    write_folder(draft, draft_folder, n_blocks, folder / "draft")
    named = {gguf_name(name): values for name, values in draft.items()}
    named = {name: rows_paired(name, values, rows_of) for name, values in named.items()}
    for kind, suffix in ((Type.BF16, "bf16"), (Type.Q8_0, "q8_0")):
        write_gguf(source, named, kind, folder / f"draft-{suffix}.gguf", n_blocks)


def full_head(rows, known, n_ids):
    """A head for all ids from one for `known` ids, ascending."""
    [quietest] = rows[known == QUIETEST_ID]
    head = np.tile(quietest, (n_ids, 1))
    head[known] = rows
    return head


def as_bf16(values):
    """The nearest bf16 values, as f32."""
    return torch.from_numpy(values).bfloat16().float().numpy()


def write_gguf(source, weights, kind, file, n_blocks=None):
    """Weights with the metadata, the tokenizer above all, of `source`. Matrices get the type `kind`."""
    writer = gguf.GGUFWriter(file, "llama")
    for field in source.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        value, [value_type, *_, item_type] = field.contents(), [*field.types, None]
        if field.name == "llama.block_count" and n_blocks:
            value = n_blocks
        if value_type == gguf.GGUFValueType.ARRAY:
            writer.add_key_value(field.name, value, value_type, sub_type=field.types[-1])
        else:
            writer.add_key_value(field.name, value, value_type)
    file_types = {Type.BF16: gguf.LlamaFileType.MOSTLY_BF16, Type.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0}
    writer.add_file_type(file_types[kind])
    for name, values in weights.items():
        if values.ndim > 1:
            writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(weights, draft_folder, n_blocks, folder):
    """A Hugging Face folder, with the config and the tokenizer of the assembled draft, which shares the target's."""
    folder.mkdir(parents=True)
    config = json.loads((Path(draft_folder) / "config.json").read_text())
    config |= {"num_hidden_layers": n_blocks, "tie_word_embeddings": "lm_head.weight" not in weights}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    for name in TOKENIZER_FILES:
        shutil.copy(Path(draft_folder) / name, folder)
    tensors = {name: torch.tensor(values).bfloat16().contiguous() for name, values in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def hugging_face_name(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] != "blk":
        return f"{OUTER_NAMES[parts[0]]}.weight"
    return f"model.layers.{parts[1]}.{BLOCK_NAMES[parts[2]]}.weight"


def gguf_name(name):
    inner = name.removesuffix(".weight")
    for ours, theirs in OUTER_NAMES.items():
        if inner == theirs:
            return f"{ours}.weight"
    _, _, block, part = inner.split(".", 3)
    [ours] = [ours for ours, theirs in BLOCK_NAMES.items() if theirs == part]
    return f"blk.{block}.{ours}.weight"


# Rotary position encoding turns pairs of rows of a query or key head. In llama.cpp's files the two of a pair are
# neighbours; in Hugging Face's they are half a head apart.


def rows_paired(name, values, rows_of):
    n_heads = rows_of.get(name.split(".")[-2])
    if n_heads is None:
        return values
    return values.reshape(n_heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def rows_apart(name, values, rows_of):
    n_heads = rows_of.get(name.split(".")[-2])
    if n_heads is None:
        return values
    return values.reshape(n_heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


if __name__ == "__main__":
    import sys

    write_all(*sys.argv[1:])

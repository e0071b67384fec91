"""Writes one golden file for each quantisation: blocks, and what the reference decodes them to.

    pip install gguf numpy && python generate.py

Each NAME.bin holds the bytes of the blocks, then their values as little-endian f32. The Python package quantises the
simple kinds itself; for the K kinds it only decodes, so their blocks are random bytes with sensible scales.
"""

from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

N_BLOCKS = 3
# Where a block keeps its half-precision scale, and its minimum if it has one.
SCALES = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_blocks(kind, random):
    block_len, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (N_BLOCKS, block_bytes), dtype=np.uint8)
    for offset in SCALES[kind.name]:
        scales = random.uniform(-0.02, 0.02, (N_BLOCKS, 1)).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8)
    return blocks


def main():
    random = np.random.default_rng(7)
    for name in ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", *SCALES]:
        kind = Kind[name]
        if name in SCALES:
            blocks = random_blocks(kind, random)
        else:
            values = random.normal(0, 0.05, (N_BLOCKS, 32)).astype(np.float32)
            blocks = quantize(values, kind)
        values = dequantize(blocks, kind).astype("<f4")
        path = Path(__file__).with_name(f"{name}.bin")
        path.write_bytes(blocks.tobytes() + values.tobytes())


main()

"""Random blocks of every GGUF type and their values by the package gguf: tests/golden/weights/blocks.safetensors.

Tensors TYPE.bytes (u8) and TYPE.values (f32). Scales are set so that zero, negative and subnormal halves occur.
"""

import sys
from pathlib import Path

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from safetensors.numpy import save_file

# Byte offsets of the half-precision scales in a block.
SCALES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}  # fmt: skip
SPECIAL_SCALES = np.array([0.0, -0.0, 5.960464477539063e-08, -6.0e-05, 1.0, -0.33, 65504.0, 2.5e-3], dtype=np.float16)


def random_blocks(kind, count, random):
    _, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for place, offset in enumerate(SCALES[kind]):
        scales = random.normal(0, 0.05, count).astype(np.float16)
        special = np.roll(SPECIAL_SCALES, place)[: min(count, len(SPECIAL_SCALES))]
        scales[: len(special)] = special
        blocks[:, offset : offset + 2] = scales.view(np.uint8).reshape(count, 2)
    return blocks


def main(output):
    random = np.random.default_rng(20260509)
    tensors = {}
    for kind in SCALES:
        values, _ = GGML_QUANT_SIZES[kind]
        blocks = random_blocks(kind, 24 if values == 32 else 10, random)
        tensors[f"{kind.name}.bytes"] = blocks.reshape(-1)
        tensors[f"{kind.name}.values"] = gguf.quants.dequantize(blocks, kind).astype("<f4").reshape(-1)
    halves = np.concatenate([SPECIAL_SCALES, random.normal(0, 3, 56).astype(np.float16)])
    tensors["F16.bytes"] = halves.view(np.uint8)
    tensors["F16.values"] = halves.astype("<f4")
    brains = random.integers(0, 0x7F80, 64, dtype=np.uint16) | (random.integers(0, 2, 64, dtype=np.uint16) << 15)
    tensors["BF16.bytes"] = brains.astype("<u2").view(np.uint8)
    tensors["BF16.values"] = gguf.quants.dequantize(brains.view(np.uint8), Type.BF16).astype("<f4").reshape(-1)
    Path(output).mkdir(parents=True, exist_ok=True)
    save_file(tensors, Path(output) / "blocks.safetensors")


if __name__ == "__main__":
    main(sys.argv[1])

"""Weights from a formula, so that a test can rebuild a large adapter without a large file.

Element i of the tensor called `name` is, with 64-bit wrap-around,
    z = fnv1a64(name) + (i + 1) * 0x9e3779b97f4a7c15, mixed as in SplitMix64
    value = ((z >> 40) - 2^23) / 2^23 * amplitude
and amplitude a power of two, so every value is exact in float32. Norm weights are 1 + value.
"""

import numpy as np
import torch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def fnv1a64(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def hashed_values(name, count, amplitude):
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a64(name)) + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) - np.float32(2**23)) * np.float32(amplitude / 2**23)


@torch.no_grad()
def fill_hashed(adapter, amplitude):
    """Sets every tensor of the adapter; names are those of adapter_model.safetensors."""
    for name, parameter in adapter.named_parameters():
        values = hashed_values(name, parameter.numel(), amplitude)
        if name.endswith("norm.weight"):
            values += np.float32(1)
        parameter.copy_(torch.from_numpy(values).view_as(parameter))
    return adapter

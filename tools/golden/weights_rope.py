"""Inverse rotary frequencies by transformers for several config.json files: tests/golden/weights/rope.json."""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

SHAPE = dict(hidden_size=512, intermediate_size=1024, num_hidden_layers=2)
SHAPE |= dict(num_attention_heads=8, num_key_value_heads=8, vocab_size=100)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
CASES = {
    "default": dict(model_type="llama"),
    "theta 1e5": dict(model_type="llama", rope_theta=100000.0, max_position_embeddings=8192),
    "theta 1e6, head_dim 128": dict(model_type="qwen3", rope_theta=1000000, head_dim=128),
    "linear": dict(model_type="llama", rope_theta=10000.0, rope_scaling=dict(type="linear", factor=4.0)),
    "llama3 of Llama 3.1": dict(
        model_type="llama", head_dim=128, rope_theta=500000.0, max_position_embeddings=131072,
        rope_scaling=dict(LLAMA3, original_max_position_embeddings=8192),
    ),
    "llama3 of Llama 3.2": dict(
        model_type="llama", rope_theta=500000.0, max_position_embeddings=131072,
        rope_scaling=dict(LLAMA3, factor=32.0, original_max_position_embeddings=8192),
    ),
    "llama3 in rope_parameters": dict(
        model_type="llama", max_position_embeddings=131072,
        rope_parameters=dict(LLAMA3, rope_theta=250000.0, original_max_position_embeddings=4096),
    ),
    "llama3 without original_max_position_embeddings": dict(
        model_type="llama", max_position_embeddings=1024, rope_parameters=dict(LLAMA3, rope_theta=10000.0)
    ),
}  # fmt: skip


def inverse_frequencies(document):
    config = AutoConfig.for_model(**document)
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        inverse, scale = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        inverse, scale = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    assert scale == 1.0
    return inverse.tolist()


def main(output):
    cases = []
    for name, changes in CASES.items():
        document = {**SHAPE, **changes}
        cases.append({"name": name, "config": document, "inverse_frequencies": inverse_frequencies(dict(document))})
    Path(output).mkdir(parents=True, exist_ok=True)
    (Path(output) / "rope.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""The tiny models of tests/golden/models as GGUF files written by the package gguf: tests/golden/weights.

llama-0000N-of-00003.gguf: bfloat16, split in three, q and k in interleaved order, rope_freqs.weight.
qwen2.gguf: bfloat16, alignment 64, the last tensor's padding cut off.
qwen3.gguf: matrices in Q8_0 or F16; qwen3.json holds the SHA-256 of every dequantised tensor under Hugging Face names.
"""

import hashlib
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name):
    stem, suffix = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{NAMES[part]}.{suffix}"
    return f"{NAMES[stem]}.{suffix}"


def pairs_from_halves(weight, heads):
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_metadata(writer, config, vocabulary):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if token.startswith("<") and token.endswith(">") else 1 for token in vocabulary])
    writer.add_token_merges(["a b", "b c"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(3)
    writer.add_eot_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def add_tensor(writer, name, values, matrix_type):
    """Norms and biases stay float32, as llama.cpp's converter leaves them. Returns what the file holds."""
    if values.ndim == 1:
        writer.add_tensor(name, values)
        return values
    if values.shape[-1] % gguf.GGML_QUANT_SIZES[matrix_type][0] != 0:
        matrix_type = gguf.GGMLQuantizationType.F16
    data = gguf.quants.quantize(values, matrix_type)
    writer.add_tensor(name, data, raw_dtype=matrix_type)
    return gguf.quants.dequantize(data, matrix_type).astype("<f4").reshape(values.shape)


def load_model(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(file)
    document = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = {**document["model"]["vocab"], **{t["content"]: t["id"] for t in document["added_tokens"]}}
    config = AutoConfig.from_pretrained(folder)
    words = {index: token for token, index in vocabulary.items()}
    tokens = [words.get(index, f"[PAD{index}]") for index in range(config.vocab_size)]
    return config, {name: tensor.float().numpy() for name, tensor in tensors.items()}, tokens


def write_llama(folder, output):
    config, tensors, tokens = load_model(folder)
    writer = gguf.GGUFWriter(output / "llama.gguf", "llama", split_max_tensors=12)
    add_metadata(writer, config, tokens)
    inverse, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    head_dim = config.hidden_size // config.num_attention_heads
    plain = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
    writer.add_tensor("rope_freqs.weight", (plain / inverse).numpy())
    for name, values in tensors.items():
        if name.endswith("q_proj.weight"):
            values = pairs_from_halves(values, config.num_attention_heads)
        if name.endswith("k_proj.weight"):
            values = pairs_from_halves(values, config.num_key_value_heads)
        add_tensor(writer, gguf_name(name), values, gguf.GGMLQuantizationType.BF16)
    finish(writer)


def write_qwen2(folder, output):
    config, tensors, tokens = load_model(folder)
    writer = gguf.GGUFWriter(output / "qwen2.gguf", "qwen2")
    writer.add_custom_alignment(64)
    add_metadata(writer, config, tokens)
    for name, values in tensors.items():
        add_tensor(writer, gguf_name(name), values, gguf.GGMLQuantizationType.BF16)
    finish(writer)
    last = max(gguf.GGUFReader(output / "qwen2.gguf").tensors, key=lambda tensor: tensor.data_offset)
    with open(output / "qwen2.gguf", "r+b") as file:
        file.truncate(last.data_offset + last.n_bytes)


def write_qwen3(folder, output):
    config, tensors, tokens = load_model(folder)
    writer = gguf.GGUFWriter(output / "qwen3.gguf", "qwen3")
    add_metadata(writer, config, tokens)
    digests = {}
    for name, values in tensors.items():
        stored = add_tensor(writer, gguf_name(name), values, gguf.GGMLQuantizationType.Q8_0)
        digests[name] = hashlib.sha256(np.ascontiguousarray(stored, dtype="<f4").tobytes()).hexdigest()
    finish(writer)
    (output / "qwen3.json").write_text(json.dumps(digests, indent=1) + "\n")


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(models, output):
    models, output = Path(models), Path(output)
    output.mkdir(parents=True, exist_ok=True)
    write_llama(models / "llama", output)
    write_qwen2(models / "qwen2", output)
    write_qwen3(models / "qwen3", output)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Backbones as transformers models in float32: Hugging Face folders, and GGUF files dequantised by gguf."""

from pathlib import Path

import gguf
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

_LAYER_NAMES = {
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
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def load_backbone(path, attention="sdpa"):
    """A causal model in float32 without gradients from a folder or a .gguf of architecture llama."""
    path = Path(path)
    if path.suffix == ".gguf":
        model = _llama_from_gguf(path, attention)
    else:
        config = AutoConfig.from_pretrained(path)
        model = AutoModelForCausalLM.from_pretrained(
            path, config=config, dtype=torch.float32, attn_implementation=attention
        )
    return model.eval().requires_grad_(False)


def _hugging_face_name(name):
    stem = name.removesuffix(".weight")
    if not stem.startswith("blk."):
        return _TOP_NAMES[stem] + ".weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight"


def _halves_from_pairs(weight, heads):
    """Rows of q and k: GGUF's llama keeps rotary pairs side by side, Hugging Face in two halves."""
    rows, columns = weight.shape
    return weight.view(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def _llama_from_gguf(path, attention):
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields[key].contents()
    if value("general.architecture") != "llama":
        raise ValueError(f"{path}: architecture {value('general.architecture')} is not llama")
    heads, kv_heads = value("llama.attention.head_count"), value("llama.attention.head_count_kv")
    tensors = {}
    for tensor in reader.tensors:
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
        if tensor.name.endswith("attn_q.weight"):
            values = _halves_from_pairs(values, heads)
        if tensor.name.endswith("attn_k.weight"):
            values = _halves_from_pairs(values, kv_heads)
        tensors[_hugging_face_name(tensor.name)] = values
    config = LlamaConfig(
        vocab_size=value("llama.vocab_size"),
        hidden_size=value("llama.embedding_length"),
        intermediate_size=value("llama.feed_forward_length"),
        num_hidden_layers=value("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=value("llama.context_length"),
        # The file holds the float32 nearest to a short decimal number; take that number.
        rms_norm_eps=float(f"{value('llama.attention.layer_norm_rms_epsilon'):.6g}"),
        rope_parameters={"rope_type": "default", "rope_theta": float(value("llama.rope.freq_base"))},
        tie_word_embeddings="lm_head.weight" not in tensors,
        bos_token_id=value("tokenizer.ggml.bos_token_id"),
        eos_token_id=value("tokenizer.ggml.eos_token_id"),
        attn_implementation=attention,
    )
    model = LlamaForCausalLM(config)
    if config.tie_word_embeddings:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    model.load_state_dict(tensors, strict=True)
    return model


def load_tokenizer(path):
    """A transformers fast tokenizer with its chat template."""
    path = Path(path)
    return _tokenizer_from_gguf(path) if path.suffix == ".gguf" else AutoTokenizer.from_pretrained(path)


def _tokenizer_from_gguf(path):
    reader = gguf.GGUFReader(path)
    value = lambda key: reader.fields[key].contents()
    if (value("tokenizer.ggml.model"), value("tokenizer.ggml.pre")) != ("gpt2", "smollm"):
        raise ValueError(f"{path}: only the pre-tokenizer smollm is known here")
    tokens = value("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in value("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, value("tokenizer.ggml.token_type")) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=value("tokenizer.chat_template"),
        bos_token=tokens[value("tokenizer.ggml.bos_token_id")],
        eos_token=tokens[value("tokenizer.ggml.eos_token_id")],
        clean_up_tokenization_spaces=False,
    )

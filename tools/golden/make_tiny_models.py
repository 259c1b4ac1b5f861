"""Writes tests/golden/models: four tiny random models as Hugging Face folders, one a family.

    python make_tiny_models.py OUTPUT

Together they cover an untied head, grouped-query attention, llama3 rope scaling, qkv bias, q/k norms, a
head_dim that is not hidden_size / heads, padded vocabularies, sharded files, float32 and bfloat16, and the
layouts of transformers 4 and 5.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM

from reference.hashed import hashed_values

TRAINING_TEXT = [
    "You are a careful assistant. Answer in one short line and never use a comma.",
    "What is the capital of France? The capital of France is Paris.",
    "Write the answer in capital letters. List three colours: red, green, blue.",
    "システムの指示に従ってください。 Привет! Grüße aus Köln 😀",
    "The quick brown fox jumps over the lazy dog while the other animals are watching from the hill.",
]
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
HEADERS = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' "
    "+ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
SHAPE = dict(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    hidden_act="silu",
    torch_dtype="bfloat16",
)
HEADER_TOKENS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
CHATML_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

LLAMA3_SCALING = dict(
    rope_type="llama3",
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
MODELS = {
    "llama": dict(
        config=dict(
            SHAPE,
            model_type="llama",
            architectures=["LlamaForCausalLM"],
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            rope_scaling=LLAMA3_SCALING,
            tie_word_embeddings=False,
            attention_bias=False,
            mlp_bias=False,
        ),
        specials=HEADER_TOKENS,
        template=HEADERS,
    ),
    "qwen2": dict(
        config=dict(
            SHAPE,
            model_type="qwen2",
            architectures=["Qwen2ForCausalLM"],
            rms_norm_eps=1e-6,
            rope_theta=1000000.0,
            tie_word_embeddings=True,
            use_sliding_window=False,
            sliding_window=128,
        ),
        specials=CHATML_TOKENS,
        template=CHATML,
    ),
    "qwen3": dict(
        config=dict(
            {**SHAPE, "num_attention_heads": 3, "num_key_value_heads": 1, "torch_dtype": "float32"},
            model_type="qwen3",
            architectures=["Qwen3ForCausalLM"],
            head_dim=16,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
            tie_word_embeddings=True,
            attention_bias=False,
        ),
        specials=CHATML_TOKENS,
        template=CHATML,
    ),
    "mistral": dict(
        config=dict(
            SHAPE,
            model_type="mistral",
            architectures=["MistralForCausalLM"],
            head_dim=8,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            sliding_window=None,
            tie_word_embeddings=False,
        ),
        specials=CHATML_TOKENS,
        template=CHATML,
        shards=2,
    ),
}


def train_tokenizer(specials):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + len(specials) + 28,
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in specials],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAINING_TEXT, trainer)
    return tokenizer


@torch.no_grad()
def random_model(folder, name):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    for key, parameter in model.named_parameters():
        # Large enough that attention is far from uniform and every nonlinearity bends.
        values = torch.from_numpy(hashed_values(f"{name}/{key}", parameter.numel(), 0.25)).view_as(parameter)
        parameter.copy_(
            values + 1 if key.endswith("norm.weight") else values * 2 if "embed" in key else values
        )
    return model


def save_weights(model, folder, config, shards):
    dtype = getattr(torch, config["torch_dtype"])
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    if config["tie_word_embeddings"]:
        del tensors["lm_head.weight"]
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = sorted(tensors)
    size = -(-len(names) // shards)
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {key: tensors[key] for key in names[shard * size : (shard + 1) * size]}
        weight_map.update({key: file for key in part})
        save_file(part, folder / file, metadata={"format": "pt"})
    total = sum(value.numel() * value.element_size() for value in tensors.values())
    write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
    )


def write_json(path, document):
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def save_text_files(folder, name, tokenizer, entry):
    end = entry["specials"][-1]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": entry["specials"][0],
        "eos_token": end,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 256,
    }
    if name == "qwen3":  # the layout of transformers 5
        (folder / "chat_template.jinja").write_text(entry["template"])
    else:
        settings["chat_template"] = entry["template"]
    write_json(folder / "tokenizer_config.json", settings)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    stop = [tokenizer.token_to_id(end), 0] if name != "llama" else tokenizer.token_to_id(end)
    write_json(folder / "generation_config.json", {"bos_token_id": 0, "eos_token_id": stop})


def main(output):
    for name, entry in MODELS.items():
        folder = Path(output) / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = train_tokenizer(entry["specials"])
        padding = 4 if name == "qwen2" else 0
        config = dict(
            entry["config"],
            vocab_size=tokenizer.get_vocab_size() + padding,
            bos_token_id=0,
            eos_token_id=tokenizer.token_to_id(entry["specials"][-1]),
        )
        write_json(folder / "config.json", config)
        save_weights(random_model(folder, name), folder, config, entry.get("shards", 1))
        save_text_files(folder, name, tokenizer, entry)


if __name__ == "__main__":
    main(sys.argv[1])

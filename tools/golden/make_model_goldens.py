"""Writes tests/golden/model: what the tiny models and CAL adapters on them compute for one ragged batch.

    python make_model_goldens.py MODELS OUTPUT

MODEL.safetensors holds the batch and the base's outputs, MODEL.ADAPTER/ an adapter folder and
expected.safetensors.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from reference.backbone import load_backbone
from reference.cal import CalAdapter, CalConfig, norms_digest, run_layers, token_logprobs
from reference.hashed import fill_hashed, hashed_values
from reference.parallel_mlp import ParallelMlpAdapter, ParallelMlpConfig

LENGTHS = [11, 19, 33]
SPANS = [[], [(0, 5)], [(2, 7), (15, 21)]]

ADAPTERS = {
    "default": dict(placement=[1, 2], options={}),
    "rope": dict(
        placement=[0, 2],
        options=dict(position="rope", self_inclusion="exclusive", mlp_scope="anchored", intermediate_size=24),
    ),
    "attention_only": dict(placement=[1], options=dict(intermediate_size=0)),
    "bias_qk_norm": dict(
        placement=[2], options=dict(attention_bias=True, qk_norm=True, intermediate_size=16)
    ),
    "own_heads": dict(
        placement=[0, 1], options=dict(num_heads=3, num_kv_heads=1, head_dim=6, intermediate_size=40)
    ),
}
PARALLEL_MLPS = {
    "parallel_mlp": dict(placement=[0, 2], intermediate_size=20, input="parallel", mlp_scope="anchored"),
    "serial_mlp": dict(placement=[1], intermediate_size=40, input="serial", mlp_scope="all"),
}
CASES = {
    "llama": ["default", "rope", "attention_only", "bias_qk_norm", "parallel_mlp"],
    "qwen2": ["bias_qk_norm", "serial_mlp"],
    "qwen3": ["rope", "own_heads"],
    "mistral": ["attention_only", "own_heads"],
}


def make_batch(vocab_size):
    """Token ids and, per token, whether it is a target (predicted by the token before it)."""
    total = sum(LENGTHS)
    draw = lambda name: (hashed_values(name, total, 1.0) + 1) / 2
    token_ids = [min(int(u * vocab_size), vocab_size - 1) for u in draw("batch/token_ids")]
    is_target = [bool(u < 0.4) for u in draw("batch/is_target")]
    begin = 0
    for length in LENGTHS:
        is_target[begin] = False
        begin += length
    return token_ids, is_target


def run_batch(model, token_ids, is_target, adapter=None, scale=1.0):
    """(hidden states per layer [num_tokens, hidden], logits [num_tokens, vocab], mean loss over targets)."""
    states, logits, losses, begin = [], [], [], 0
    for length, spans in zip(LENGTHS, SPANS):
        ids, wanted = token_ids[begin : begin + length], torch.tensor(is_target[begin + 1 : begin + length])
        layers, out = run_layers(model, ids, adapter, spans, scale)
        states.append(layers)
        logits.append(out)
        losses.append(-token_logprobs(out, ids)[wanted])
        begin += length
    hidden = [torch.cat(parts) for parts in zip(*states)]
    return hidden, torch.cat(logits), torch.cat(losses).mean()


def batch_tensors(token_ids, is_target):
    spans = [(i, begin, end) for i, row in enumerate(SPANS) for begin, end in row]
    return {
        "token_ids": torch.tensor(token_ids, dtype=torch.int32),
        "lengths": torch.tensor(LENGTHS, dtype=torch.int32),
        "spans": torch.tensor(spans, dtype=torch.int32),
        "is_target": torch.tensor(is_target, dtype=torch.uint8),
    }


def write_base(model, path, token_ids, is_target):
    with torch.no_grad():
        hidden, logits, loss = run_batch(model, token_ids, is_target)
    tensors = batch_tensors(token_ids, is_target)
    tensors.update({f"hidden.{i}": state for i, state in enumerate(hidden)})
    tensors["logits_of_last_sequence"] = logits[-LENGTHS[-1] :]
    tensors["loss"] = loss[None]
    save(tensors, path)


def cal_adapter(model, name, folder):
    entry = ADAPTERS[name]
    config = CalConfig.like_backbone(model.config, **entry["options"])
    adapter = fill_hashed(CalAdapter(model.config.hidden_size, entry["placement"], config), 0.25)
    # Only what differs from the backbone is written, so that reading the file needs the documented defaults.
    adapter.save(folder, model.config, norms_digest(model), dtype=torch.bfloat16, section=entry["options"])
    return CalAdapter.load(folder, model.config)


def parallel_mlp_adapter(model, name, folder):
    options = dict(PARALLEL_MLPS[name], rms_norm_eps=model.config.rms_norm_eps)
    placement = options.pop("placement")
    adapter = ParallelMlpAdapter(model.config.hidden_size, placement, ParallelMlpConfig(**options))
    fill_hashed(adapter, 0.25).save(folder, model.config, norms_digest(model), dtype=torch.bfloat16)
    return ParallelMlpAdapter.load(folder, model.config)


def write_adapter(model, name, folder, token_ids, is_target):
    make = cal_adapter if name in ADAPTERS else parallel_mlp_adapter
    adapter = make(model, name, folder)
    tensors = {}
    for scale in (1.0, 0.5):
        adapter.zero_grad()
        hidden, _, loss = run_batch(model, token_ids, is_target, adapter, scale)
        loss.backward()
        tensors[f"scale_{scale}.loss"] = loss.detach()[None]
        layers = range(len(hidden)) if scale == 1.0 else [len(hidden) - 1]
        tensors.update({f"scale_{scale}.hidden.{i}": hidden[i].detach() for i in layers})
        if scale == 1.0 or name == "bias_qk_norm":
            grads = {key: p.grad.clone() for key, p in adapter.named_parameters()}
            tensors.update({f"scale_{scale}.grad.{key}": grad for key, grad in grads.items()})
    save(tensors, folder / "expected.safetensors")


def save(tensors, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, path)


def main(models, output):
    torch.set_num_threads(1)
    for name, adapters in CASES.items():
        model = load_backbone(Path(models) / name, attention="eager")
        token_ids, is_target = make_batch(model.config.vocab_size)
        write_base(model, Path(output) / f"{name}.safetensors", token_ids, is_target)
        for adapter in adapters:
            write_adapter(model, adapter, Path(output) / f"{name}.{adapter}", token_ids, is_target)


if __name__ == "__main__":
    main(*sys.argv[1:])

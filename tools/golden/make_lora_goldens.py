"""Writes tests/golden/model/MODEL.lora_*: LoRA adapters that PEFT made and saved, and what it computes with them.

    python make_lora_goldens.py MODELS OUTPUT

The folders have the layout of make_model_goldens.py, so the same tests read both. A strength s multiplies PEFT's
own scaling. PEFT trains each adapter for a few steps before it is saved; `lora_B` starts from small random
values, as zeros would leave `lora_A` without a gradient.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from peft.utils import get_peft_model_state_dict

from make_model_goldens import LENGTHS, make_batch, save
from reference.backbone import load_backbone
from reference.cal import run_layers, token_logprobs
from reference.hashed import hashed_values

ADAPTERS = {
    "llama.lora_all": dict(r=4, lora_alpha=4, target_modules="all-linear"),
    "qwen2.lora_patterns": dict(
        r=3,
        lora_alpha=6,
        target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "down_proj"],
        rank_pattern={"q_proj": 5, "layers.1.mlp.down_proj": 2, r"^model\.layers\.0\.self_attn\.o_proj": 1},
        alpha_pattern={"o_proj": 7, "model.layers.2.mlp.gate_proj": 1},
    ),
    "qwen3.lora_rslora": dict(
        r=6, lora_alpha=4, use_rslora=True, target_modules=["v_proj", "up_proj", "layers.1.self_attn.o_proj"]
    ),
    "mistral.lora_late": dict(
        r=2, lora_alpha=8, target_modules=["q_proj", "v_proj", "up_proj"], layers_to_transform=[1, 2]
    ),
}
STEPS, LEARNING_RATE = 3, 1e-2


def add_lora(model, options):
    peft = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for name, parameter in peft.named_parameters():
            if "lora_" in name:
                values = hashed_values(name, parameter.numel(), 0.25)
                parameter.copy_(torch.from_numpy(values).view_as(parameter))
    return peft.eval()


def scale_updates(peft, factor):
    for module in peft.modules():
        if isinstance(getattr(module, "scaling", None), dict):
            module.scaling["default"] *= factor


def run_batch(peft, token_ids, is_target):
    """(hidden states per layer, mean loss over targets) of the batch, one sequence at a time."""
    states, losses, begin = [], [], 0
    for length in LENGTHS:
        ids, wanted = token_ids[begin : begin + length], torch.tensor(is_target[begin + 1 : begin + length])
        layers, logits = run_layers(peft.base_model.model, ids)
        states.append(layers)
        losses.append(-token_logprobs(logits, ids)[wanted])
        begin += length
    return [torch.cat(parts) for parts in zip(*states)], torch.cat(losses).mean()


def train(peft, token_ids, is_target):
    optimiser = torch.optim.AdamW([p for p in peft.parameters() if p.requires_grad], lr=LEARNING_RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        run_batch(peft, token_ids, is_target)[1].backward()
        optimiser.step()


def gradients(peft):
    """By the names of the saved file."""
    grads = {name: p.grad for name, p in peft.named_parameters() if p.requires_grad}
    return get_peft_model_state_dict(peft, state_dict=grads)


def save_adapter(peft, name, folder):
    peft.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    # PEFT writes a set in the order of this process, and the path that was given.
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text())
    config["target_modules"].sort()
    config["base_model_name_or_path"] = f"tests/golden/models/{name.split('.')[0]}"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_adapter(models, name, folder):
    model = load_backbone(models / name.split(".")[0], attention="eager")
    token_ids, is_target = make_batch(model.config.vocab_size)
    peft = add_lora(model, ADAPTERS[name])
    train(peft, token_ids, is_target)
    save_adapter(peft, name, folder)
    tensors = {}
    for scale in (1.0, 0.5):
        peft.zero_grad()
        scale_updates(peft, scale)
        hidden, loss = run_batch(peft, token_ids, is_target)
        loss.backward()
        scale_updates(peft, 1.0 / scale)
        tensors[f"scale_{scale}.loss"] = loss.detach()[None]
        layers = range(len(hidden)) if scale == 1.0 else [len(hidden) - 1]
        tensors.update({f"scale_{scale}.hidden.{i}": hidden[i].detach() for i in layers})
        tensors.update({f"scale_{scale}.grad.{key}": grad for key, grad in gradients(peft).items()})
    save(tensors, folder / "expected.safetensors")


def main(models, output):
    torch.set_num_threads(1)
    for name in ADAPTERS:
        write_adapter(Path(models), name, Path(output) / name)


if __name__ == "__main__":
    main(*sys.argv[1:])

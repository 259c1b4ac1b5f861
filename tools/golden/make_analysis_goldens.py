"""Writes tests/golden/study: what the activation analysis must find on a tiny model.

    python make_analysis_goldens.py MODELS ADAPTERS OUTPUT

analysis.safetensors: hidden states (output_hidden_states) and attention on the span (output_attentions, eager) of the
base, and weights and contributions of the CAL blocks of ADAPTERS/llama.default. probe.json: a logistic regression
solved by Newton's method.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from make_model_goldens import LENGTHS, SPANS, make_batch
from reference.backbone import load_backbone
from reference.cal import CalAdapter

ANSWER = 4  # the last tokens of each sequence are its answer


def sequences(vocab_size):
    """(ids, spans, position of the last prompt token) of the sequences that have a span."""
    token_ids, _ = make_batch(vocab_size)
    begin = 0
    for length, spans in zip(LENGTHS, SPANS):
        if spans:
            yield token_ids[begin : begin + length], spans, length - ANSWER - 1
        begin += length


def base_values(model):
    """States [layers + 1, sequences, hidden] and attention on the span [layers, heads], mean over sequences."""
    states, last, answer = [], [], []
    for ids, spans, place in sequences(model.config.vocab_size):
        before_norm = {}
        final = model.model.layers[-1].register_forward_hook(
            lambda module, args, output: before_norm.update(state=output[0] if output.dim() == 3 else output)
        )
        out = model(input_ids=torch.tensor([ids]), output_hidden_states=True, output_attentions=True, use_cache=False)
        final.remove()
        # transformers gives the last state behind the final norm; the hook has it before.
        hidden = [state[0] for state in out.hidden_states[:-1]] + [before_norm["state"]]
        states.append(torch.stack([state[place] for state in hidden]))
        on_span = torch.stack([sum(a[0, :, :, b:e].sum(-1) for b, e in spans) for a in out.attentions])
        last.append(on_span[:, :, place])
        answer.append(on_span[:, :, place : place + ANSWER].mean(-1))
    mean = lambda parts: torch.stack(parts).double().mean(0)
    return {"states": torch.stack(states, 1), "last": mean(last), "answer": mean(answer)}


def block_values(model, adapter):
    """Per block: weights over the span of the first sequence, and mean ratio of each contribution."""
    tensors, ratios = {}, {}
    for number, (ids, spans, place) in enumerate(sequences(model.config.vocab_size)):
        seen = [i for b, e in spans for i in range(b, e)]
        read = slice(place, place + ANSWER)
        handles = []
        for layer, block in adapter.blocks.items():

            def keep_weights(module, args, output, layer=layer):
                h, visible = args[0], args[1]
                config = module.config
                split = lambda x, heads: x.view(len(ids), heads, config.head_dim).transpose(0, 1)
                q, k = split(module.q_proj(h), config.num_heads), split(module.k_proj(h), config.num_kv_heads)
                k = k.repeat_interleave(config.num_heads // config.num_kv_heads, 0)
                scores = q[:, read] @ k[:, seen].transpose(1, 2) / config.head_dim**0.5
                if number == 0:
                    tensors[f"block.{layer}.weights"] = scores.softmax(-1).mean(1)

            def keep_ratios(module, args, output, layer=layer):
                x = args[0]
                added = module.attn(module.attn_norm(x), *args[1:4])
                middle = x + added
                mlp = module.mlp(module.mlp_norm(middle))
                pair = torch.stack([(a.norm(dim=-1) / b.norm(dim=-1))[read].mean() for a, b in [(added, x), (mlp, middle)]])
                ratios.setdefault(layer, []).append(pair.double())

            handles.append(block.attn.register_forward_hook(keep_weights))
            handles.append(block.register_forward_hook(keep_ratios))
        with adapter.attached(model, len(ids), spans):
            model(input_ids=torch.tensor([ids]), use_cache=False)
        for handle in handles:
            handle.remove()
    tensors.update({f"block.{layer}.ratios": torch.stack(pairs).mean(0) for layer, pairs in ratios.items()})
    return tensors


def probe(l2=0.05):
    """Mean cross-entropy + l2 / 2 |W|^2 at its minimum, by Newton steps on all parameters."""
    random = np.random.default_rng(7)
    rows, features, classes = 40, 4, 3
    x = np.round(random.normal(size=(rows, features)), 3)
    y = (x @ random.normal(size=(features, classes)) + random.normal(size=(rows, classes))).argmax(1)
    wide = np.hstack([x, np.ones((rows, 1))])
    penalty = np.diag(np.tile([l2] * features + [0.0], classes))
    theta = np.zeros(classes * (features + 1))
    for _ in range(50):
        scores = wide @ theta.reshape(classes, -1).T
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        gradient = ((share - np.eye(classes)[y]).T @ wide / rows).ravel() + penalty @ theta
        hessian = penalty.copy()
        for i in range(rows):
            curvature = np.diag(share[i]) - np.outer(share[i], share[i])
            hessian += np.kron(curvature, np.outer(wide[i], wide[i])) / rows
        # A common shift of the biases changes nothing: least squares takes the shortest step.
        theta -= np.linalg.lstsq(hessian, gradient, rcond=None)[0]
    weight = theta.reshape(classes, -1)[:, :-1]
    value = -np.log(share[np.arange(rows), y]).mean() + l2 / 2 * (weight**2).sum()
    return {
        "features": x.tolist(),
        "labels": y.tolist(),
        "l2": l2,
        "weight": weight.tolist(),
        "objective": value,
        "gradient": float(np.abs(gradient).max()),
    }


def main(models, adapters, output):
    torch.set_num_threads(1)
    model = load_backbone(Path(models) / "llama", attention="eager")
    adapter = CalAdapter.load(Path(adapters) / "llama.default", model.config)
    with torch.no_grad():
        tensors = base_values(model) | block_values(model, adapter)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({key: value.float().contiguous() for key, value in tensors.items()}, folder / "analysis.safetensors")
    (folder / "probe.json").write_text(json.dumps(probe()) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

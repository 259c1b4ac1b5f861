"""Writes tests/golden/training: losses and gradient norms of eight optimiser steps of four chats each.

    python make_training_goldens.py MODEL.gguf GOLDEN

float32, AdamW (constant rate, no warm-up, no decay), the loss a mean over the label tokens of the whole
step, gradients clipped to a total norm of 1; the norm is reported as it was before clipping. Rows are taken
in file order, all assistant turns are labels.
"""

import json
import sys
from pathlib import Path

import torch

from make_score_goldens import AMPLITUDE, load_adapters
from reference.backbone import load_backbone, load_tokenizer
from reference.cal import CalAdapter, run_layers, token_logprobs
from reference.chat import ChatEncoder

STEPS, ROWS_A_STEP, LEARNING_RATE = 8, 4, 2e-4
ANIMALS = ["cat", "owl", "horse", "frog", "whale", "ant", "goat", "crow"]
COLOURS = ["red", "green", "blue", "black"]


def training_rows():
    """32 chats: with and without a system message, one and two assistant turns, short and long."""
    rows = []
    for i in range(STEPS * ROWS_A_STEP):
        animal, colour = ANIMALS[i % 8], COLOURS[i // 8]
        messages = []
        if i % 5 != 4:
            rule = [
                "Answer in capital letters.",
                "Never use a comma.",
                f"End each answer with the word {colour}.",
            ][i % 3]
            messages.append({"role": "system", "content": rule + " Be brief." * (i % 4)})
        messages.append({"role": "user", "content": f"Tell me about a {colour} {animal}."})
        answer = [
            f"THE {animal.upper()} IS {colour.upper()}.",
            f"The {animal} is {colour} and calm.",
            f"A {animal} that is {colour}",
        ]
        messages.append({"role": "assistant", "content": answer[i % 3]})
        if i % 7 == 3:
            messages.append({"role": "user", "content": f"And what is {i} + {i % 6}?"})
            messages.append({"role": "assistant", "content": f"{i + i % 6}"})
        rows.append({"id": f"row{i}", "messages": messages})
    return rows


def train(model, encoder, adapter, rows):
    adapter.requires_grad_(True)
    optimiser = torch.optim.AdamW(
        adapter.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
    )
    result = dict(losses=[], grad_norms=[], tokens=[], label_tokens=[])
    for step in range(STEPS):
        batch = [
            encoder.encode(row["messages"]) for row in rows[step * ROWS_A_STEP : (step + 1) * ROWS_A_STEP]
        ]
        labels = sum(sum(chat.label_mask()) for chat in batch)
        optimiser.zero_grad()
        total = 0.0
        for chat in batch:
            _, logits = run_layers(model, chat.token_ids, adapter, chat.system_spans)
            wanted = torch.tensor(chat.label_mask()[1:], dtype=torch.bool)
            loss = -token_logprobs(logits, chat.token_ids)[wanted].sum() / labels
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(adapter.parameters(), 1.0)
        optimiser.step()
        result["losses"].append(round(total, 7))
        result["grad_norms"].append(round(float(norm), 7))
        result["tokens"].append(sum(len(chat.token_ids) for chat in batch))
        result["label_tokens"].append(labels)
    return result


def main(path, golden):
    golden, rows = Path(golden), training_rows()
    output = golden / "training"
    output.mkdir(parents=True, exist_ok=True)
    with open(output / "rows.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    runs = {}
    for name in ("llama.default", "qwen3.rope"):
        folder = golden / "models" / name.split(".")[0]
        model = load_backbone(folder, attention="eager")
        adapter = CalAdapter.load(golden / "model" / name, model.config)
        runs[name] = train(model, ChatEncoder(load_tokenizer(folder)), adapter, rows)
    model = load_backbone(path)
    adapter = load_adapters(model)["late8th"]
    runs["default_backbone.late8th"] = train(model, ChatEncoder(load_tokenizer(path)), adapter, rows)
    document = dict(learning_rate=LEARNING_RATE, rows_a_step=ROWS_A_STEP, amplitude=AMPLITUDE, runs=runs)
    (output / "expected.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

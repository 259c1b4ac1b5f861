"""Compares the output of `calyrex score` with transformers in float32, and with what bf16 autocast gives.

    calyrex score --model M --adapter DIR@0.5 --dtype float32 --input rows.jsonl --output f32.jsonl
    calyrex score --model M --adapter DIR@0.5 --input rows.jsonl --output auto.jsonl
    python compare_score.py --model M --adapter DIR@0.5 --input rows.jsonl f32.jsonl auto.jsonl \\
        --max 2e-3 0.5 --mean 1e-4 0.04

M is a Hugging Face folder or a GGUF of architecture llama. Token ids and spans of chats must be equal; for
raw prompts the ids of the output are taken as given. Exit code 1 when anything differs or a difference
passes its limit.
"""

import argparse
import contextlib
import json
import sys

import torch

from reference.backbone import load_backbone, load_tokenizer
from reference.cal import CalAdapter, run_layers, token_logprobs
from reference.chat import ChatEncoder


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def split_scale(text):
    """ "DIR@0.5" -> ("DIR", 0.5)"""
    folder, at, scale = text.rpartition("@")
    return (folder, float(scale)) if at else (text, 1.0)


class Reference:
    def __init__(self, model, adapter):
        self.model, self.encoder = load_backbone(model), ChatEncoder(load_tokenizer(model))
        self.adapter, self.scale = None, 0.0
        if adapter:
            folder, self.scale = split_scale(adapter)
            self.adapter = CalAdapter.load(folder, self.model.config)

    @torch.no_grad()
    def logprobs(self, token_ids, spans, score_from, autocast=False):
        context = torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext()
        with context:
            _, logits = run_layers(self.model, token_ids, self.adapter, spans, self.scale)
        return token_logprobs(logits, token_ids)[score_from - 1 :].tolist()

    def expected(self, row, scored):
        """Of an input row: token ids, spans, first scored token, log-probabilities in float32 and bf16."""
        if "messages" in row:
            chat = self.encoder.encode(row["messages"])
            begin, end = chat.turns[-1]
            ids, spans = chat.token_ids[:end], [list(span) for span in chat.system_spans]
        else:
            ids, spans, begin = scored["token_ids"], scored["system_spans"], scored["score_from"]
        exact = self.logprobs(ids, spans, begin)
        return ids, spans, begin, exact, self.logprobs(ids, spans, begin, autocast=True)


def differences(values, exact):
    return [abs(a - b) for a, b in zip(values, exact)]


def summary(name, diffs):
    print(
        f"{name}: {len(diffs)} log-probabilities, "
        f"max |diff| {max(diffs):.6f}, mean |diff| {sum(diffs) / len(diffs):.6f}"
    )


def compare(arguments):
    reference = Reference(arguments.model, arguments.adapter)
    rows = read_lines(arguments.input)
    outputs = {path: read_lines(path) for path in arguments.scores}
    diffs, autocast, faults = {path: [] for path in outputs}, [], 0
    for number, row in enumerate(rows):
        first = next(iter(outputs.values()))[number]
        ids, spans, begin, exact, coarse = reference.expected(row, first)
        autocast += differences(coarse, exact)
        for path, lines in outputs.items():
            scored = lines[number]
            got = (scored["token_ids"], scored["system_spans"], scored["score_from"], len(scored["logprobs"]))
            if got != (ids, spans, begin, len(exact)):
                print(
                    f"{path}: row {row.get('id', number)}: "
                    "token ids, spans or scored range differ from transformers"
                )
                faults += 1
                continue
            diffs[path] += differences(scored["logprobs"], exact)
    for path, values in diffs.items():
        if values:
            summary(path, values)
    summary("transformers under bf16 autocast", autocast)
    for path, limit_max, limit_mean in zip(diffs, arguments.max, arguments.mean):
        values = diffs[path]
        faults += not values or max(values) > limit_max or sum(values) / len(values) > limit_mean
    return faults == 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scores", nargs="+", help="output files of calyrex score, in the order of --input")
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapter", help="DIR[@SCALE]")
    parser.add_argument("--input", required=True, help="the rows that were scored")
    parser.add_argument(
        "--max", nargs="*", type=float, default=[], help="limit of the largest difference, one a file"
    )
    parser.add_argument(
        "--mean", nargs="*", type=float, default=[], help="limit of the mean difference, one a file"
    )
    sys.exit(0 if compare(parser.parse_args()) else 1)


if __name__ == "__main__":
    main()

"""Loads a LoRA adapter of `calyrex train` with PEFT and compares log-probabilities with `calyrex score`.

    calyrex score --model M --adapter DIR --dtype float32 --input rows.jsonl --output f32.jsonl
    python check_lora_in_peft.py --model M --adapter DIR f32.jsonl

M is a Hugging Face folder or a GGUF of architecture llama. Prints the largest difference; exit code 1 above
--max.
"""

import argparse
import json
import sys

import torch
from peft import PeftModel

from reference.backbone import load_backbone
from reference.cal import run_layers, token_logprobs


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--max", type=float, default=1e-4)
    parser.add_argument("scored")
    args = parser.parse_args()
    peft = PeftModel.from_pretrained(load_backbone(args.model), args.adapter).eval()
    largest = count = 0
    with open(args.scored, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            _, logits = run_layers(peft.base_model.model, row["token_ids"])
            expected = token_logprobs(logits, row["token_ids"])[row["score_from"] - 1 :]
            difference = (expected - torch.tensor(row["logprobs"])).abs()
            largest, count = max(largest, difference.max().item()), count + len(difference)
    print(f"{count} log-probabilities, largest difference {largest:.2e}")
    sys.exit(largest > args.max)


if __name__ == "__main__":
    main()

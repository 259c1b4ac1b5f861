"""The PyTorch eager peers: train CAL late8th, or LoRA by PEFT, with transformers; print real tokens per second as JSON.

    OMP_NUM_THREADS=2 python train_eager.py --model FOLDER|FILE.gguf --data chats.jsonl --steps 20

Padded batches, frozen backbone (no graph is built before the first block), AdamW. --logits all makes the logits of
every position, as transformers' own loss does; --logits labels only those that have a label. Only tokens of rows
count, never padding; the first --skip steps are left out of the rate. OpenMP settings are taken as they are and
reported.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "golden"))
from eager_cal import EagerCal, PaddedBatch  # noqa: E402
from reference.backbone import load_backbone, load_tokenizer  # noqa: E402
from reference.cal import PRESETS  # noqa: E402
from reference.chat import ChatEncoder  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--method", default="cal", choices=["cal", "lora"])
    parser.add_argument("--lora-rank", type=int, default=58, help="58 has as many parameters as late8th CAL on SmolLM2-135M")
    parser.add_argument("--logits", default="all", choices=["all", "labels"])
    parser.add_argument("--placement", default="late8th", choices=sorted(PRESETS))
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "float32"], help="bf16: autocast")
    parser.add_argument(
        "--backbone-dtype", default="float32", choices=["bf16", "float32"], help="storage of frozen weights"
    )
    parser.add_argument("--batch-rows", type=int, default=8, help="rows of one padded forward")
    parser.add_argument(
        "--batch-tokens", type=int, default=0, help="accumulate to this many real tokens a step"
    )
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--skip", type=int, default=2, help="first steps left out of the rate")
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def read_chats(path, encoder):
    with open(path, encoding="utf-8") as file:
        return [encoder.encode(json.loads(line)["messages"]) for line in file if line.strip()]


def micro_batches(chats, rows, rng):
    """Padded batches for ever, in an order shuffled anew each pass."""
    while True:
        order = rng.sample(chats, len(chats))
        for begin in range(0, len(order), rows):
            yield PaddedBatch(order[begin : begin + rows], pad_id=0)


def train_step(peer, optimiser, batches, arguments):
    """One optimiser step: (mean loss, real tokens). Sums are divided after accumulation."""
    loss_sum, labels, tokens = 0.0, 0, 0
    while tokens == 0 or tokens < arguments.batch_tokens:
        batch = next(batches)
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.dtype == "bf16"):
            loss, count = peer(batch)
        loss.backward()
        loss_sum, labels, tokens = loss_sum + loss.item(), labels + count, tokens + batch.real_tokens
    for parameter in peer.parameters():
        parameter.grad /= labels
    torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    return loss_sum / labels, tokens


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    model = load_backbone(arguments.model)
    if arguments.backbone_dtype == "bf16":
        model.to(torch.bfloat16)
    chats = read_chats(arguments.data, ChatEncoder(load_tokenizer(arguments.model)))
    if arguments.method == "lora":
        from eager_lora import EagerLora  # PEFT takes seconds to import

        peer = EagerLora(model, arguments.lora_rank, arguments.logits)
    else:
        peer = EagerCal(model, PRESETS[arguments.placement](model.config.num_hidden_layers), arguments.logits)
    optimiser = torch.optim.AdamW(peer.parameters(), lr=arguments.learning_rate, weight_decay=0.0)
    batches = micro_batches(chats, arguments.batch_rows, random.Random(arguments.seed))
    losses, tokens, seconds = [], [], []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        loss, count = train_step(peer, optimiser, batches, arguments)
        seconds.append(time.perf_counter() - begin)
        losses.append(round(loss, 5))
        tokens.append(count)
    counted = slice(min(arguments.skip, arguments.steps - 1), None)
    result = {
        "tokens_per_second": round(sum(tokens[counted]) / sum(seconds[counted]), 1),
        "method": arguments.method,
        "logits": arguments.logits,
        "trained_parameters": sum(p.numel() for p in peer.parameters()),
        "steps": arguments.steps,
        "real_tokens": sum(tokens),
        "seconds": round(sum(seconds), 2),
        "losses": losses,
        "dtype": arguments.dtype,
        "backbone_dtype": arguments.backbone_dtype,
        "batch_rows": arguments.batch_rows,
        "batch_tokens": arguments.batch_tokens,
        "threads": torch.get_num_threads(),
        "omp": {key: value for key, value in os.environ.items() if key.startswith(("OMP_", "GOMP_"))},
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

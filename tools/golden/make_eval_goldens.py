"""Writes tests/golden/eval/answers.json: what transformers answers to benchmark prompts on the default backbone.

    python make_eval_goldens.py MODEL.gguf DATA OUTPUT

DATA holds mmlu/{dev,test}, gsm8k/{train,test}.jsonl and ifeval/input_data.jsonl; none of their text is written, only
row ids, a digest of each prompt's token ids, and numbers. Weights are dequantised from the GGUF, all in float32.
"""

import csv
import hashlib
import json
import sys
from array import array
from itertools import islice
from pathlib import Path

import torch

from reference.backbone import load_backbone, load_tokenizer
from reference.chat import ChatEncoder

MMLU_ROWS, SHOTS, LETTERS = 200, 5, "ABCD"
CHATS, NEW_TOKENS = 20, 64


def digest(token_ids):
    return hashlib.sha256(array("i", token_ids).tobytes()).hexdigest()


def mmlu_prompts(folder):
    """(id, head, question): the raw five-shot prompt of lm-evaluation-harness in two parts; subjects take turns."""

    def rows(part, subject):
        with open(folder / part / f"{subject}_{part}.csv", newline="", encoding="utf-8") as file:
            return list(csv.reader(file))[1:]

    def ask(row):
        choices = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, row[1:5]))
        return f"{row[0].strip()}\n{choices}\nAnswer:"

    subjects = sorted(path.name.removesuffix("_test.csv") for path in (folder / "test").glob("*_test.csv"))
    heads, tests = {}, {}
    for subject in subjects:
        name = subject.replace("_", " ")
        heads[subject] = f"The following are multiple choice questions (with answers) about {name}.\n\n"
        for row in rows("dev", subject)[:SHOTS]:
            heads[subject] += f"{ask(row)} {LETTERS[int(row[5])]}\n\n"
        tests[subject] = rows("test", subject)
    for index in range(max(map(len, tests.values()))):
        for subject in subjects:
            if index < len(tests[subject]):
                yield f"{subject}/{index}", heads[subject], ask(tests[subject][index])


class ChoiceScorer:
    """Log-probability of each letter behind a prompt; what prompts have in common is computed once a subject."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer, self.heads = model, tokenizer, {}

    def _head(self, head):
        """(token ids, cache) of a head without its last two tokens, which may join with what follows."""
        if head not in self.heads:
            token_ids = self.tokenizer(head, add_special_tokens=False)["input_ids"][:-2]
            out = self.model(torch.tensor([token_ids]), use_cache=True, logits_to_keep=1)
            self.heads[head] = token_ids, out.past_key_values
        return self.heads[head]

    def __call__(self, head, question):
        texts = [f"{head}{question} {letter}" for letter in LETTERS]
        sequences = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        if len({tuple(ids[:-1]) for ids in sequences}) != 1:
            raise ValueError("a letter is not one token")
        token_ids, (shared, cache) = sequences[0][:-1], self._head(head)
        if token_ids[: len(shared)] != shared:
            raise ValueError("a prompt does not begin with its head")
        rest = torch.tensor([token_ids[len(shared) :]])
        logits = self.model(rest, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        cache.crop(-rest.shape[1])
        logprobs = torch.log_softmax(logits, dim=-1)
        return token_ids, [round(float(logprobs[ids[-1]]), 6) for ids in sequences]


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def ifeval_chats(folder):
    for row in read_lines(folder / "input_data.jsonl"):
        yield str(row["key"]), [{"role": "user", "content": row["prompt"]}]


def gsm8k_chats(folder):
    """Five worked rows of the training file before the question, under a neutral system message."""
    examples = "".join(
        f"Question: {row['question']}\nAnswer: {row['answer']}\n\n"
        for row in read_lines(folder / "train.jsonl")[:SHOTS]
    )
    for index, row in enumerate(read_lines(folder / "test.jsonl")):
        yield str(index), [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": f"{examples}Question: {row['question']}\nAnswer:"},
        ]


def greedy_answer(model, token_ids, stop_id):
    """The likeliest tokens, one after the other, and how far the second was behind in logits."""
    answer, margins, cache, step = [], [], None, token_ids
    while len(answer) < NEW_TOKENS and (not answer or answer[-1] != stop_id):
        out = model(torch.tensor([step]), past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, best = out.past_key_values, torch.topk(out.logits[0, -1], 2)
        answer.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
        step = answer[-1:]
    return answer, margins


@torch.no_grad()
def main(path, data, output):
    model, tokenizer, data = load_backbone(path), load_tokenizer(path), Path(data)
    encoder, stop_id = ChatEncoder(tokenizer), tokenizer.convert_tokens_to_ids("<|im_end|>")
    document = {"new_tokens": NEW_TOKENS, "mmlu": {}, "greedy": {"ifeval": {}, "gsm8k": {}}}
    for name, chats in (("ifeval", ifeval_chats), ("gsm8k", gsm8k_chats)):
        for row, messages in islice(chats(data / name), CHATS):
            token_ids = encoder.encode(messages, generation_prompt=True).token_ids
            answer, margins = greedy_answer(model, token_ids, stop_id)
            document["greedy"][name][row] = {
                "prompt_sha256": digest(token_ids), "token_ids": answer, "margins": margins
            }
            print(name, row, len(token_ids), min(margins), file=sys.stderr)
    score_choices = ChoiceScorer(model, tokenizer)
    for row, head, question in islice(mmlu_prompts(data / "mmlu"), MMLU_ROWS):
        token_ids, logprobs = score_choices(head, question)
        document["mmlu"][row] = {"prompt_sha256": digest(token_ids), "logprobs": logprobs}
        print(row, len(token_ids), logprobs, file=sys.stderr)
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, separators=(",", ":")).replace('},"', '},\n"')
    (output / "answers.json").write_text(text + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

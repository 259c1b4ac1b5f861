"""Small tokenizers configured as those of the model families, with ids by Hugging Face tokenizers on hard texts:
tests/golden/text/FAMILY/{tokenizer.json,tokenizer_config.json,tokenizer.gguf,encode.json}, and texts.json."""

import json
import sys
from pathlib import Path

import gguf
from text_samples import CORPUS, HARD_TEXTS
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer
from transformers.tokenization_utils_base import generate_merges

VOCAB = 420
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# The regular expressions of llama.cpp for "default"; no Hugging Face model has them.
DEFAULT = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
]


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def plain_bytes():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


FAMILIES = {
    "smollm": dict(
        pre=lambda: [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
        special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        bos="<|im_start|>", eos="<|im_end|>",
    ),
    "qwen2": dict(
        pre=lambda: [split(QWEN2), plain_bytes()],
        special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        user_defined=["<tool_call>", "</tool_call>", "<think>", "</think>"],
        normalizer=normalizers.NFC, eos="<|im_end|>",
    ),
    "llama-bpe": dict(
        pre=lambda: [split(LLAMA3), plain_bytes()],
        special=["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>",
                 "<|eot_id|>", "<|python_tag|>"],
        bos="<|begin_of_text|>", eos="<|eot_id|>", ignore_merges=True, prepend_bos=True,
    ),
    "gpt-2": dict(
        pre=lambda: [pre_tokenizers.ByteLevel(add_prefix_space=False)],
        special=["<|endoftext|>"], bos="<|endoftext|>", eos="<|endoftext|>",
    ),
    "default": dict(
        pre=lambda: [split(pattern) for pattern in DEFAULT] + [plain_bytes()], special=["<s>", "</s>"], eos="</s>",
    ),
}  # fmt: skip


def byte_level(family):
    tokenizer = Tokenizer(models.BPE(ignore_merges=family.get("ignore_merges", False)))
    if "normalizer" in family:
        tokenizer.normalizer = family["normalizer"]()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(family["pre"]())
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if family.get("ignore_merges"):
        # A word in the vocabulary that no merge reaches: only ignore_merges finds it.
        document = json.loads(tokenizer.to_str())
        document["model"]["vocab"]["\u0120brown"] = len(document["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in family["special"]])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in family.get("user_defined", [])])
    processor = processors.ByteLevel(trim_offsets=False)
    if family.get("prepend_bos"):
        bos = family["bos"]
        template = processors.TemplateProcessing(f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        processor = processors.Sequence([processor, template])
    tokenizer.post_processor = processor
    return tokenizer


SENTENCE_PIECE_CONTROL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]"]
SENTENCE_PIECE_CONTROL += ["[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]


def sentence_piece():
    """(tokenizer, scores) as a conversion from a SentencePiece model with separate control tokens makes it."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    learner.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=700, show_progress=False))
    model = json.loads(learner.to_str())["model"]
    pieces = ["".join(pair) for pair in model["merges"]]
    letters = [token for token in model["vocab"] if len(token) == 1]
    letters = [c for c in letters if ord(c) < 0x250 or c == "\u2581"]  # the others need the byte fallback
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [piece for piece in pieces if all(c in letters for c in piece)][:260]
    tokens = SENTENCE_PIECE_CONTROL + byte_tokens + pieces + letters
    scores = [0.0] * (len(SENTENCE_PIECE_CONTROL) + 256)
    scores += [-float(rank) for rank in range(len(pieces))] + [-1e6] * len(letters)
    vocab = {token: index for index, token in enumerate(tokens)}
    merges = generate_merges(vocab, dict(zip(tokens, scores)))
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SENTENCE_PIECE_CONTROL])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer, scores


def write_gguf(path, name, tokenizer, scores, config):
    vocab = tokenizer.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    added = {token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()}
    types = []
    for token in tokens:
        kind = gguf.TokenType.NORMAL
        if token in added:
            kind = gguf.TokenType.CONTROL if added[token] else gguf.TokenType.USER_DEFINED
        elif scores and token.startswith("<0x"):
            kind = gguf.TokenType.BYTE
        types.append(gguf.TokenType.UNKNOWN if token == "<unk>" else kind)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama" if scores else "gpt2")
    writer.add_tokenizer_pre("default" if scores else name)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores:
        writer.add_token_scores(scores)
        writer.add_unk_token_id(vocab["<unk>"])
    else:
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        writer.add_token_merges([" ".join(pair) for pair in merges])
    if config.get("bos_token"):
        writer.add_bos_token_id(vocab[config["bos_token"]])
    writer.add_eos_token_id(vocab[config["eos_token"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def encodings(folder, tokenizer):
    """Ids of every text by transformers, as text with added tokens and (plain) without any."""
    reference = AutoTokenizer.from_pretrained(folder)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"], document["post_processor"] = [], None
    plain = Tokenizer.from_str(json.dumps(document))
    added = sorted(token.content for token in tokenizer.get_added_tokens_decoder().values())
    mixed = "x" + " ".join(added) + "".join(added) + " y" + added[0][:-1] + added[-1] + "\n"
    rows = []
    for text in HARD_TEXTS + [mixed]:
        rows.append(
            {
                "text": text,
                "ids": reference(text, add_special_tokens=False)["input_ids"],
                "plain_ids": plain.encode(text, add_special_tokens=False).ids,
                "raw_ids": reference(text)["input_ids"],
                "decoded": tokenizer.decode(plain.encode(text, add_special_tokens=False).ids),
            }
        )
    return rows


def main(out):
    for name in [*FAMILIES, "mistral"]:
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        family = FAMILIES.get(name, dict(bos="<s>", eos="</s>"))
        tokenizer, scores = sentence_piece() if name == "mistral" else (byte_level(family), None)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": family["eos"]}
        if "bos" in family:
            config["bos_token"] = family["bos"]
        document = json.loads(tokenizer.to_str())
        (folder / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
        write_gguf(folder / "tokenizer.gguf", name, tokenizer, scores, config)
        rows = encodings(folder, tokenizer)
        (folder / "encode.json").write_text(json.dumps(rows, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

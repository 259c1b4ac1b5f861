"""Chats to token ids, system spans and labels; added tokens count only where the template wrote them."""

import json
from dataclasses import dataclass

from tokenizers import Tokenizer


@dataclass
class EncodedChat:
    text: str
    token_ids: list
    offsets: list  # [(begin, end)] in characters of text
    system_spans: list  # [(begin, end)] in tokens
    turns: list  # [(begin, end)] in tokens: each assistant content and its end-of-turn token

    def label_mask(self):
        """1 where the token is a training target."""
        mask = [0] * len(self.token_ids)
        for begin, end in self.turns:
            mask[begin:end] = [1] * (end - begin)
        return mask


class ChatEncoder:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.added = {
            token.content: (i, token.special) for i, token in tokenizer.added_tokens_decoder.items()
        }
        document = json.loads(tokenizer.backend_tokenizer.to_str())
        document["added_tokens"], document["post_processor"] = [], None
        self.plain = Tokenizer.from_str(json.dumps(document))

    def render(self, messages, generation_prompt=False):
        return self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation_prompt
        )

    def locate_contents(self, messages, generation_prompt):
        """(text, [(role, begin, end)]): a rendering with markers tells what the template writes between."""
        text = self.render(messages, generation_prompt)
        markers = [f"@@content{i}@@" for i in range(len(messages))]
        marked = self.render([{**m, "content": c} for m, c in zip(messages, markers)], generation_prompt)
        places, cursor = [], 0
        for message, marker in zip(messages, markers):
            before, marked = marked.split(marker)
            if text[cursor : cursor + len(before)] != before:
                raise ValueError("the template does not align with its marked rendering")
            cursor += len(before)
            content = message["content"]
            if not text.startswith(content, cursor):
                content = content.strip()
            if not text.startswith(content, cursor):
                raise ValueError("a content is not where the template puts it")
            places.append((message["role"], cursor, cursor + len(content)))
            cursor += len(content)
        if text[cursor:] != marked:
            raise ValueError("the template does not align with its marked rendering")
        return text, places

    def _added_tokens(self, text, places):
        """[(begin, end, id)] of the added tokens that count: leftmost and longest first."""
        found, at = [], 0
        while at < len(text):
            best = max((t for t in self.added if text.startswith(t, at)), key=len, default=None)
            if best is None or not self._may_hold(best, at, at + len(best), places):
                at += 1
                continue
            found.append((at, at + len(best), self.added[best][0]))
            at += len(best)
        return found

    def _may_hold(self, token, begin, end, places):
        special = self.added[token][1]
        for role, content_begin, content_end in places:
            overlaps = begin < content_end and content_begin < end
            if overlaps and (special or role != "assistant"):
                return False
        return True

    def encode(self, messages, generation_prompt=False):
        text, places = self.locate_contents(messages, generation_prompt)
        ids, offsets, is_added, cursor = [], [], [], 0

        def encode_plain(begin, end):
            encoding = self.plain.encode(text[begin:end], add_special_tokens=False)
            ids.extend(encoding.ids)
            offsets.extend((begin + b, begin + e) for b, e in encoding.offsets)
            is_added.extend([False] * len(encoding.ids))

        for begin, end, token_id in self._added_tokens(text, places):
            encode_plain(cursor, begin)
            ids.append(token_id)
            offsets.append((begin, end))
            is_added.append(True)
            cursor = end
        encode_plain(cursor, len(text))
        spans = [self._overlapping(offsets, b, e) for role, b, e in places if role == "system" and b < e]
        turns = [self._turn(offsets, is_added, b, e) for role, b, e in places if role == "assistant"]
        return EncodedChat(text, ids, offsets, spans, turns)

    @staticmethod
    def _overlapping(offsets, begin, end):
        inside = [i for i, (b, e) in enumerate(offsets) if b < end and begin < e]
        return inside[0], inside[-1] + 1

    @staticmethod
    def _turn(offsets, is_added, begin, end):
        first = next(i for i, (b, _) in enumerate(offsets) if b >= begin)
        last = next(i for i, (b, _) in enumerate(offsets) if b >= end and is_added[i])
        return first, last + 1

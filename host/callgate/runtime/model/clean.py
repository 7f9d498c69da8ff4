"""Foreign text made fit to stand in a definition: bounded, and without characters that nobody sees. Pure.

Descriptions come from MCP servers, whoever these are. Control characters, text direction marks, tag characters and
other invisible ones can hide from a person what a model reads; a line break can pretend that something else begins.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["clean", "one_line", "sentence_of"]

_JOINERS = "\u200c\u200d"  # Persian, Hindi and emoji are written with them: one at a time, between other letters
_STRAY = re.compile(
    "(?<![^\\x00-\\x7f\u200c\u200d])[\u200c\u200d]+|[\u200c\u200d]+(?![^\\x00-\\x7f\u200c\u200d])|[\u200c\u200d]{2,}"
)
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]|\ufe0f{2,}"
)
"""Fillers and variation selectors: of other categories, and as invisible."""
_BREAKS = re.compile("\r\n?|[\u0085\u2028\u2029\v\f]")
_BLANK = re.compile(r"\s+")
_MANY_BREAKS = re.compile(r"\n{3,}")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean(text: str, most: int) -> str:
    """`text` of visible characters, blanks and line breaks; at most `most` characters, with `...` where it was cut."""
    text = _BREAKS.sub("\n", text[: most * 4]).replace("\t", "    ")
    text = "".join(c for c in text if c == "\n" or c in _JOINERS or unicodedata.category(c) not in _HIDDEN)
    text = _UNSEEN.sub("", _STRAY.sub("", text))
    return _cut(_MANY_BREAKS.sub("\n\n", text).strip(), most)


def one_line(text: str, most: int) -> str:
    """The same, on one line."""
    return _cut(_BLANK.sub(" ", clean(text, most * 4)).strip(), most)


def sentence_of(text: str, most: int) -> str:
    """The first sentence, or the first paragraph, on one line."""
    first = clean(text, most * 4).split("\n\n", 1)[0]
    line = one_line(first, most * 4)
    end = re.search(r"(?<=[.!?])\s", line)
    return _cut(line[: end.start()] if end else line, most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 3, 0)].rstrip()}..."

"""A program's text as lines of markup, with its keywords, texts, numbers and comments marked. Runs nothing."""

from __future__ import annotations

import io
import keyword
import tokenize
from collections import defaultdict
from contextlib import suppress
from typing import Final

from .markup import escaped

__all__ = ["MOST_CHARACTERS", "MOST_LINES", "lines_of"]

MOST_LINES: Final = 4000
MOST_CHARACTERS: Final = 256 * 1024
"""Of a source that is shown. Programs have 64 KiB, unless their limits are raised."""
_LINE_CHARACTERS: Final = 1000
_FSTRINGS: Final = ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END", "TSTRING_START", "TSTRING_MIDDLE", "TSTRING_END")
_CLASSES: Final[dict[int, str]] = {
    tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "d",
    **{getattr(tokenize, name): "s" for name in _FSTRINGS if hasattr(tokenize, name)},
}  # fmt: skip


def lines_of(source: str) -> list[str]:
    """Each line as markup, the first `MOST_LINES` of them; what is not Python stays without marks."""
    lines = [line.removesuffix("\r") for line in source.split("\n")]
    spans: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    with suppress(tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = "w" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else _CLASSES.get(token.type)
            if kind is None:
                continue
            (first, start), (last, end) = token.start, token.end
            if first > MOST_LINES:
                break
            for number in range(first, min(last, MOST_LINES) + 1):
                to = end if number == last else _LINE_CHARACTERS
                spans[number].append((start if number == first else 0, to, kind))
    return [_line(line, spans[number]) for number, line in enumerate(lines[:MOST_LINES], 1)]


def _line(line: str, spans: list[tuple[int, int, str]]) -> str:
    pieces, at = [], 0
    shown = line[:_LINE_CHARACTERS]
    for start, end, kind in spans:
        start, end = max(start, at), min(end, len(shown))
        if start < end:
            pieces += [_text(shown[at:start]), f'<span class="{kind}">{_text(shown[start:end])}</span>']
            at = end
    rest = f"… ({len(line) - len(shown):,} more characters)" if len(line) > len(shown) else ""
    return "".join([*pieces, _text(shown[at:]), rest])


def _text(text: str) -> str:
    return escaped(text.replace("\t", "    "), _LINE_CHARACTERS * 4)

"""How much work a regular expression is: its states, with every repetition written out.

The engine needs a time that grows with the states times the text, at worst; it never tries one thing after another.
Knows just enough of the notation to count; what it cannot read counts as one character.
"""

from __future__ import annotations

import re

__all__ = ["pattern_states", "pattern_work"]

_TOKEN = re.compile(
    r"(?P<wide>\\[pP](?:\{[^}]*\}|.)|\\[wWdDsS]|\.|\[\^(?:\\.|[^\]\\])*\])"
    r"|(?P<repeat>\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})"
    r"|(?P<open>\()|(?P<close>\))|(?P<mark>[*+?|^$])"
    r"|(?P<narrow>\\(?:x\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]|.)",
    re.DOTALL,
)
_WIDE = 3
"""States of a class that holds much of Unicode, which is several bytes to the engine; by measurement."""
_MANY = 10**12
_FEW = 32
"""A pattern of no more states is a table in the engine."""
_BOUNDED = 256
"""So is one of no more that stands at the beginning and ends by itself, as those of names and numbers do."""
_UNBOUNDED = re.compile(r"[*+]|,\}")


def pattern_work(pattern: str) -> int:
    """Units of work (see `schema_cost`) for each byte of a text, at worst."""
    states = pattern_states(pattern)
    if states <= _FEW or (states <= _BOUNDED and pattern.startswith("^") and not _UNBOUNDED.search(pattern)):
        return 1 + states // 16
    return states


def pattern_states(pattern: str) -> int:
    """The states of a pattern: ``"(ab{3}){10}"`` has 40. At least 1; more than any limit where it has very many."""
    before, last = 0, 0
    groups: list[int] = []
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup if token["repeat"] is None else "repeat":
            case "repeat":
                last = min(_MANY, last * max(1, int(token["least"]), int(token["most"] or 0)))
            case "open":
                groups.append(before + last)
                before = last = 0
            case "close":
                last, before = before + last, groups.pop() if groups else 0
            case "wide":
                before, last = before + last, _WIDE
            case "narrow":
                before, last = before + last, 1
            case _:
                pass
    return min(_MANY, max(1, sum(groups) + before + last))

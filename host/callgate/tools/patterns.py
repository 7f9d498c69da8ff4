"""How much work a regular expression is: its states, with every repetition written out.

The engine needs a time that grows with the states times the text, at worst; it never tries one thing after another.
Knows just enough of the notation to count; what it cannot read counts as one character.
"""

from __future__ import annotations

import re

__all__ = ["pattern_states", "pattern_work"]

_TOKEN = re.compile(
    r"(?P<unicode>\\[pP](?:\{[^}]*\}|.))|(?P<wide>\\[wWdDsS]|\.|\[\^(?:\\.|[^\]\\])*\])"
    r"|(?P<repeat>\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\})"
    r"|(?P<open>\()|(?P<close>\))|(?P<mark>[*+?|^$])"
    r"|(?P<narrow>\\(?:x\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]|.)",
    re.DOTALL,
)
_WIDE = 3
"""States of a class that holds much of Unicode, which is several bytes to the engine; by measurement."""
_UNICODE = 9
"""States of a class by a property of Unicode; by measurement."""
_MANY = 10**12
_FEW = 32
"""A pattern of no more states is a table in the engine."""
_ONE_BY_ONE = 3
"""States of a repeated character that are at work together, however often it is repeated; by measurement."""
_LAST_REPEAT = re.compile(r"\{(\d{1,9}),\d{0,9}\}$")


def pattern_work(pattern: str) -> int:
    """Units of work (see `schema_cost`) for each byte of a text, at worst."""
    needed = _LAST_REPEAT.sub(r"{\1}", pattern)  # the engine stops where it is sure
    states = pattern_states(needed)
    if pattern.startswith("^"):
        states = min(states, _at_once(needed))
    return 1 + states // 16 if states <= _FEW else states


def _at_once(pattern: str) -> int:
    """Of a pattern that stands at the beginning, the states that may be at work together: up to the first choice there
    is one, which the length of what was read tells."""
    parts: list[tuple[int, bool]] = []
    chosen: set[int] = set()
    depth = 0
    before = ""
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup if token["repeat"] is None else "repeat"
        if kind in ("unicode", "wide", "narrow", "open") and depth == 0:
            parts.append((token.start(), kind == "open"))
        depth = max(0, depth + (kind == "open") - (kind == "close"))
        variable = kind == "repeat" and token["most"] is not None and token["most"] != token["least"]
        if variable or (kind == "mark" and token[0] not in "^$" and not (token[0] == "?" and before == "(")):
            if token[0] == "|" and depth == 0:
                return _MANY
            chosen.add(len(parts) - 1)
        before = token[0]
    if not chosen:
        return _ONE_BY_ONE
    first = max(0, min(chosen))
    start, group = parts[first] if parts else (0, True)
    if group:
        return pattern_states(pattern[start:])
    after = parts[first + 1][0] if first + 1 < len(parts) else len(pattern)
    return _ONE_BY_ONE + pattern_states(pattern[after:])


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
            case "unicode":
                before, last = before + last, _UNICODE
            case "wide":
                before, last = before + last, _WIDE
            case "narrow":
                before, last = before + last, 1
            case _:
                pass
    return min(_MANY, max(1, sum(groups) + before + last))

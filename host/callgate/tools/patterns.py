"""Estimates the work of a regular expression: its states, with every repetition written out.

The engine never backtracks; at worst its time grows with the states times the text. This file reads just enough of the
notation to count. Whatever it cannot read counts as one character.
"""

from __future__ import annotations

import re

__all__ = ["pattern_states", "pattern_work"]

_UNICODE = r"\\[pP](?:\{[^}]*\}|.)"
_WIDE = r"\\[wWdDsS]|\.|\[\^(?:\\.|[^\]\\])*\]"
_NARROW = r"\\(?:x\{[^}]*\}|.)|\[(?:\\.|[^\]\\])*\]"
_TOKEN = re.compile(
    rf"(?P<unicode>{_UNICODE})|(?P<wide>{_WIDE})|(?P<repeat>\{{(?P<least>\d{{1,9}})(?:,(?P<most>\d{{0,9}}))?\}})"
    rf"|(?P<open>\()|(?P<close>\))|(?P<mark>[*+?|^$])|(?P<narrow>{_NARROW}|.)",
    re.DOTALL,
)
_CHARACTER = rf"(?:{_UNICODE}|{_WIDE}|{_NARROW}|[^\\()|*+?{{}}\[^$])"
_BEGINNING = re.compile(
    rf"\^(?:{_CHARACTER}(?:\{{\d+\}})?(?![*+?{{]))*(?:{_CHARACTER}(?:[*+?]|\{{\d+,\d*\}}))?\$?", re.DOTALL
)
"""The anchored beginning of a pattern up to its first choice: only one state is active there."""
_STATES_OF_WIDE = 3
"""States of a class with much of Unicode in it, whose characters are several bytes to the engine; measured."""
_STATES_OF_UNICODE = 9
"""States of a class by a property of Unicode; measured."""
_ONE_BY_ONE = 3
"""States of a repeated character that are active together, whatever the number of repetitions; measured."""
_FEW = 32
"""Most states of a pattern that the engine makes a table of."""
_LAST_REPEAT = re.compile(r"\{(\d{1,9}),\d{0,9}\}$")
_MANY = 10**12


def pattern_work(pattern: str) -> int:
    """Units of work (see `schema_cost`) for each byte of a text, at worst."""
    needed = _LAST_REPEAT.sub(r"{\1}", pattern)  # the engine stops at the first match
    states = pattern_states(needed)
    if "|" not in needed and (beginning := _BEGINNING.match(needed)):
        states = min(states, _ONE_BY_ONE + pattern_states(needed[beginning.end() :]))
    return 1 + states // 16 if states <= _FEW else states


def pattern_states(pattern: str) -> int:
    """The number of states of a pattern, at least 1: ``"(ab{3}){10}"`` has 40."""
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
                before, last = before + last, _STATES_OF_UNICODE
            case "wide":
                before, last = before + last, _STATES_OF_WIDE
            case "narrow":
                before, last = before + last, 1
            case _:
                pass
    return min(_MANY, max(1, sum(groups) + before + last))

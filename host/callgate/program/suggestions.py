"""Did you mean: the nearest of some known names. Knows edit distance and nothing of Python.

The work is bounded whatever the input, because difflib is quadratic in the length of what it compares: only those names
are compared that share the most with the word.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from callgate.tools.nearness import likely

__all__ = ["nearest"]

_LONGEST = 64
_MOST_COMPARED = 10
_FURTHEST = 3


def nearest(word: str, *known: Iterable[str]) -> str | None:
    """The name that `word` was probably meant to be, or None where that would be a guess.

    Args:
        word: what was written.
        known: the names there are; those of every argument are looked through by themselves.
    """
    if len(word) > _LONGEST or len(word) < 2:
        return None
    plain = _without_joints(word)
    near: list[str] = []
    for names in known:
        found = likely(word, names, len(word) - _FURTHEST, len(word) + _FURTHEST)
        for candidate in found:
            if _without_joints(candidate) == plain:
                return candidate
        near += found[:_MOST_COMPARED]
    close = get_close_matches(word, near, n=1, cutoff=0.72)
    return close[0] if close else None


def _without_joints(name: str) -> str:
    """``getWeather`` and ``get_weather`` are one name to a model."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()

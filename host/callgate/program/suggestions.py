"""Did you mean: the nearest of some known names. Knows edit distance and nothing of Python.

The work is bounded whatever the input, because difflib is quadratic in the length of what it compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["nearest"]

_LONGEST = 64
_MOST = 10_000
_MOST_COMPARED = 1_500
_FURTHEST = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `word` was probably meant to be, or None where that would be a guess."""
    if len(word) > _LONGEST or len(word) < 2:
        return None
    near: list[str] = []
    plain = _without_joints(word)
    for count, candidate in enumerate(known):
        if count >= _MOST:
            break
        if abs(len(candidate) - len(word)) > _FURTHEST:
            continue
        if _without_joints(candidate) == plain:
            return candidate
        if len(near) < _MOST_COMPARED:
            near.append(candidate)
    found = get_close_matches(word, near, n=1, cutoff=0.72)
    return found[0] if found else None


def _without_joints(name: str) -> str:
    """``getWeather`` and ``get_weather`` are one name to a model."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()

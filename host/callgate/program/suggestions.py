"""Did you mean: the nearest of some known names. Knows how near words are and nothing of Python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from callgate.tools.nearness import near

__all__ = ["nearest"]

_LONGEST = 64
_MOST_NEAR = 10
_FURTHEST = 3
"""Letters by which the length may differ."""
_CLOSE = 0.72


def nearest(word: str, *known: Iterable[str]) -> str | None:
    """The name that `word` was probably meant to be, or None where that would be a guess.

    Args:
        word: what was written.
        known: the names there are.
    """
    if len(word) > _LONGEST or len(word) < 2:
        return None
    found = near(word, chain.from_iterable(known), _CLOSE, _MOST_NEAR)
    found = [name for name in found if abs(len(name) - len(word)) <= _FURTHEST]
    plain = _without_joints(word)
    return next((name for name in found if _without_joints(name) == plain), found[0] if found else None)


def _without_joints(name: str) -> str:
    """``getWeather`` and ``get_weather`` are one name to a model."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()

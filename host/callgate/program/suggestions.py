"""Did you mean: the nearest of some known names. Knows how near words are and nothing of Python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice

from callgate.tools.faults import near

__all__ = ["nearest"]

_LONGEST = 64
_MOST_NEAR = 10
_MOST_NAMES = 10_000
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
    names = list(islice(chain.from_iterable(known), _MOST_NAMES))
    found = [name for name in near(word, names, _CLOSE, _MOST_NEAR) if abs(len(name) - len(word)) <= _FURTHEST]
    plain = _without_joints(word)
    # of short names, a joint is so large a part that they are not near
    same = (name for name in found or names if _without_joints(name) == plain)
    return next(same, found[0] if found else None)


def _without_joints(name: str) -> str:
    """``getWeather`` and ``get_weather`` are one name to a model."""
    return name.replace("_", "").replace("-", "").replace(".", "").casefold()

"""Which of many names a word is near to. Knows letters, and not what the names are of. The one door to `rapidfuzz`.

How near is the share of letters that two words have in common, in their order: twice those, of the letters of both.
Upper and lower case are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

__all__ = ["near"]

_MOST_NAMES = 10_000
"""Further names are not looked at. So many take about 2 ms."""


def near(word: str, known: Iterable[str], share: float, limit: int = 1) -> list[str]:
    """The names that have at least this share of letters in common with a word, the nearest first.

    Args:
        word: what was written.
        known: the names; of equally near ones the first come first. 10,000 are looked at.
        share: from 0 to 1.
        limit: how many at most.
    """
    from rapidfuzz import fuzz, process  # where something is wrong already: nobody else waits for the import

    names = list(islice(known, _MOST_NAMES))
    lowered = [name.lower() for name in names]
    found = process.extract(word.lower(), lowered, scorer=fuzz.ratio, score_cutoff=100 * share, limit=limit)
    return [names[place] for _, _, place in found]

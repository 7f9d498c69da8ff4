"""Documents as counted words, and the score of each word of a query in each of them: BM25.

The formula and its constants are those of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (2009), with Lucene's inverse document frequency, which is never negative. A word that the query repeats counts
by the square root of its number.

The numbers of a word are computed when a query first has the word: most words of a registry never occur in one. Numbers
of words in many documents are stored as lanes, those of rare words as pairs of place and number.

Knows counted words by place; not what the places stand for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from .compounds import begins_of
from .lanes import MOST, STEP, Sums, lanes, packed, whole

__all__ = ["Postings", "Profile"]

_K1 = 2.0
_B = 0.75
_FEW = 24
"""Most documents of a word whose numbers are added one by one, which is faster than lanes."""
_MAX_LANES_BYTES = 64 << 20
"""Most bytes of lanes; beyond, all numbers are dropped and computed again when needed."""
_WEIGHTS = (0, 2, 3, 3, 4, 4, 5)
"""Twice the square root of the word's number in the query, rounded."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The counted terms of a document."""

    counts: Mapping[str, int]
    """Number of each term; a term in a more important text counts several times."""
    length: int
    """The sum of `counts`."""


@dataclass(frozen=True, slots=True)
class _Posting:
    """A term's numbers: half of its score in a query that has it once, in units of `STEP`."""

    top: int
    few: tuple[tuple[int, int], ...]
    lanes: int


_NOTHING = _Posting(0, (), 0)


class Postings:
    """Terms, and the documents that have them.

    Args:
        profiles: the documents; a document's place is its index.
    """

    def __init__(self, profiles: Sequence[Profile]) -> None:
        self.places = len(profiles)
        self._counts: dict[str, dict[int, int]] = {}
        for place, profile in enumerate(profiles):
            for term, count in profile.counts.items():
                found = self._counts.get(term)
                if found is None:
                    self._counts[term] = {place: count}
                else:
                    found[place] = count
        mean = sum(profile.length for profile in profiles) / max(self.places, 1) or 1.0
        self._norms = [_K1 * (1 - _B + _B * profile.length / mean) for profile in profiles]
        self._postings: dict[str, _Posting] = {}
        self._kept_bytes = 0

    def knows(self, term: str) -> bool:
        """Whether any document has the term."""
        return term in self._counts

    @cached_property
    def begins(self) -> frozenset[str]:
        """`begins_of` all terms."""
        return begins_of(self._counts)

    def has(self, term: str, place: int) -> bool:
        """Whether the document at that place has the term."""
        found = self._counts.get(term)
        return found is not None and place in found

    def share(self, terms: Iterable[str], place: int) -> float:
        """The share of a query's terms that the document has, each by its rarity: 0 to 1. A term that no document has
        is the rarest."""
        rarities = {term: self._rarity(len(self._counts.get(term, ()))) for term in terms}
        return sum(rarity for term, rarity in rarities.items() if self.has(term, place)) / sum(rarities.values())

    def _rarity(self, documents: int) -> float:
        return math.log(1 + (self.places - documents + 0.5) / (documents + 0.5))

    def sums(self, terms: Mapping[str, int], among: int | None = None) -> Sums:
        """The score of a query in each document, in units of `STEP`.

        Args:
            terms: the terms of the query, and how often each occurs. Where a sum could overflow, the terms with the
                smallest numbers are left out; that takes some thirty rare words.
            among: lanes of ones for the documents that count; None for all.
        """
        postings = self._postings
        once = repeated = most = 0
        rare: list[tuple[tuple[tuple[int, int], ...], int]] = []
        for term, times in terms.items():
            posting = postings.get(term) or self._posting(term)
            weight = _WEIGHTS[times if times < 6 else 6]
            most += posting.top * weight
            if posting.few:
                rare.append((posting.few, weight))
            elif weight == 2:
                once += posting.lanes
            else:
                repeated += posting.lanes * weight
        if most > MOST:
            return self.sums(self._fitting(terms, most), among)
        total = once << 1
        numbers = lanes(self.places, total + repeated if repeated else total)
        for few, weight in rare:
            for place, number in few:
                numbers[place] += number * weight
        if among is not None:
            numbers = lanes(self.places, whole(numbers) & among)
        return Sums(numbers)

    def _fitting(self, terms: Mapping[str, int], most: int) -> dict[str, int]:
        """The terms without those with the smallest numbers, so that no sum can overflow.

        Args:
            terms: the terms of a query, and how often each occurs.
            most: the largest sum that there could be.
        """
        tops = {term: self._posting(term).top * _WEIGHTS[min(times, 6)] for term, times in terms.items()}
        left_out = set()
        for term in sorted(tops, key=tops.__getitem__):
            if most <= MOST:
                break
            left_out.add(term)
            most -= tops[term]
        return {term: times for term, times in terms.items() if term not in left_out}

    def mask(self, places: Iterable[int]) -> int:
        """Lanes of ones at these places."""
        return packed(self.places, ((place, MOST) for place in places))

    def _posting(self, term: str) -> _Posting:
        kept, counts = self._postings.get(term), self._counts.get(term)
        if kept is not None or counts is None:
            return kept or _NOTHING
        factor, norms = self._rarity(len(counts)) * (_K1 + 1) / STEP / 2, self._norms
        numbers = tuple((place, round(factor * n / (n + norms[place])) or 1) for place, n in counts.items())
        top = max(number for _, number in numbers)
        if len(numbers) <= _FEW:
            posting = _Posting(top, numbers, 0)
        else:
            posting = _Posting(top, (), packed(self.places, numbers))
            self._kept_bytes += 2 * self.places
            if self._kept_bytes > _MAX_LANES_BYTES:
                self._postings.clear()
                self._kept_bytes = 2 * self.places
        self._postings[term] = posting
        return posting

"""Queries that are like a new one, found by the words that they share. Knows numbers and terms, nothing else.

1. Two queries are as similar as Dice's coefficient of their terms says: twice the shared ones over all of both.
2. Candidates are had from the new query's terms, the rarest first, of each the newest queries that say it: a bounded
   number, so that a search takes the same time among a hundred queries and among ten thousand.
3. Numbers are no terms: they are values, and say nothing of the kind of a query.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from itertools import islice

from callgate.search.words import query_terms

__all__ = ["Similar", "terms_of"]

LEAST_SIMILARITY = 0.4
"""Below, two queries are not alike: two questions of four words that share one have 0.25, that share two 0.5."""
MOST_ALIKE = 64
"""So many similar queries are enough to know a rate to some 12 points."""
MAX_CANDIDATES = 512
"""So many queries are compared, with some 0.5 µs each."""
_PER_TERM = 256


def terms_of(query: str) -> frozenset[str]:
    """The terms that a query is compared by; empty where it has no words."""
    return frozenset(term for term in query_terms(query) if not term.isdigit())


class Similar:
    """Queries by number; numbers only grow, and the least is the first to be forgotten."""

    def __init__(self) -> None:
        self._terms: dict[int, frozenset[str]] = {}
        self._said: dict[str, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, number: int, terms: frozenset[str]) -> None:
        """Take a query in.

        Args:
            number: above that of every other.
            terms: as `terms_of` gives them.
        """
        self._terms[number] = terms
        for term in terms:
            self._said.setdefault(term, deque()).append(number)

    def forget(self, number: int) -> None:
        """Forget the query with the least number."""
        for term in self._terms.pop(number):
            said = self._said[term]
            said.popleft()
            if not said:
                del self._said[term]

    def like(self, terms: frozenset[str]) -> list[int]:
        """Numbers of the queries that are like one, the most similar first, of those the newest; at most 64."""
        found = ((2 * len(terms & other) / (len(terms) + len(other)), n, other) for n, other in self._candidates(terms))
        best = heapq.nlargest(MOST_ALIKE, ((alike, n) for alike, n, _ in found if alike >= LEAST_SIMILARITY))
        return [number for _, number in best]

    def _candidates(self, terms: Iterable[str]) -> Iterable[tuple[int, frozenset[str]]]:
        known = sorted((said for term in terms if (said := self._said.get(term))), key=len)
        candidates: set[int] = set()
        for said in known:
            candidates.update(islice(reversed(said), min(_PER_TERM, MAX_CANDIDATES - len(candidates))))
            if len(candidates) >= MAX_CANDIDATES:
                break
        return [(number, self._terms[number]) for number in candidates]

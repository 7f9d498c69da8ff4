"""Ranks the tools for a query, by their own words, by the words of their servers, and by lessons of earlier queries.

A tool's score is the sum of

- its own score: BM25 over its name (which counts three times), category, capabilities, description and parameters;
- half of the larger of its own score and its server's score: BM25 over all tools of the server. So "weather" finds all
  tools of a weather server, also those without the word. A tool without a server loses nothing;
- half of its learned score: BM25 over the queries that this tool has answered (`learned`).

Only the best `_POOL` by their own score, and the best by lessons, are ranked; the rest is noise.
The constants were chosen on one half of the queries of two public data sets; docs/model.md has the figures.

Knows profiles and servers by place; no tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .lanes import STEP
from .postings import Postings, Profile

__all__ = ["Index", "Ranked"]

_POOL = 40
_SERVER_SHARE = 0.5
_LEARNED_SHARE = 0.5


class Ranked(NamedTuple):
    """A place, and the three parts of its score."""

    place: int
    own: float
    server: float
    learned: float

    @property
    def score(self) -> float:
        """The sum; larger is better. Comparable within one query only."""
        return self.own + self.server + self.learned


class Index:
    """Tools by place.

    Args:
        profiles: the tools' profiles.
        servers: the name of each tool's server; None for a tool without one.
    """

    def __init__(self, profiles: Sequence[Profile], servers: Sequence[str | None]) -> None:
        self.tools = Postings(profiles)
        names = {server: n for n, server in enumerate(dict.fromkeys(filter(None, servers)))}
        self._server_of = [-1 if not server else names[server] for server in servers]
        merged: list[Counter[str]] = [Counter() for _ in names]
        lengths = [0] * len(names)
        for profile, number in zip(profiles, self._server_of, strict=True):
            if number >= 0:
                merged[number].update(profile.counts)
                lengths[number] += profile.length
        self._servers = Postings([Profile(counts, length) for counts, length in zip(merged, lengths, strict=True)])

    def rank(
        self,
        terms: Mapping[str, int],
        limit: int,
        *,
        among: int | None = None,
        learned: Mapping[int, float] | None = None,
    ) -> list[Ranked]:
        """The best tools for a query, the best first; equals in order of place.

        Args:
            terms: the terms of the query, and how often each occurs.
            limit: most tools to return.
            among: `mask` of the tools that count; None for all.
            learned: BM25 of earlier queries, by place; only places that count.
        """
        sums = self.tools.sums(terms, among)
        pool = sums.best(max(_POOL, limit))
        if learned:
            pool += set(learned).difference(pool)
        # a single server gives all of its tools the same share
        of_servers = self._servers.sums(terms).numbers if self._servers.places > 1 else None
        own, server_of = sums.numbers, self._server_of
        scored = []
        for place in pool:
            number = also = own[place]
            if of_servers is not None and (server := server_of[place]) >= 0 and of_servers[server] > also:
                also = of_servers[server]
            score = number + _SERVER_SHARE * also
            if learned and place in learned:
                score += _LEARNED_SHARE / STEP * learned[place]
            scored.append((-score, place, number, also))
        scored.sort()
        found = []
        for _, place, number, also in scored[:limit]:
            taught = _LEARNED_SHARE * learned.get(place, 0.0) if learned else 0.0
            found.append(Ranked(place, number * STEP, _SERVER_SHARE * also * STEP, taught))
        return found

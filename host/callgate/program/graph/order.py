"""Which calls have to have ended before another begins, in the order of the program. Knows numbers of sites.

A call that is not early comes after all that the program awaited before it. An early one comes after those that are
not early and were begun before it, awaited or not: begun earlier than they are, it would not see what they do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

__all__ = ["Ended", "Order"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The calls awaited so far, without those that another one of them waited for."""

    calls: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    """The same of the calls that are not early alone."""
    begun: frozenset[int] = frozenset()
    """Calls that are not early, were begun, and not awaited yet."""

    def __or__(self, other: Ended) -> Ended:
        return Ended(self.calls | other.calls, self.writes | other.writes, self.begun | other.begun)


class Order:
    """The order of one program's calls.

    Args:
        early: the sites of calls that may be made before the program gets there.
    """

    def __init__(self, early: Collection[int]) -> None:
        self._early = early
        self._before: dict[int, frozenset[int]] = {}
        self.now = Ended()

    def begins(self, site: int) -> frozenset[int]:
        """The program has come to a call: what has to have ended."""
        now = self.now
        if site in self._early:
            before = now.writes | now.begun
        else:
            before = now.calls
            self.now = Ended(now.calls, now.writes, now.begun | {site})
        self._before[site] = before
        return before

    def ends(self, sites: Iterable[int]) -> None:
        """The program goes on when these calls have ended."""
        calls, writes, begun = self.now.calls, self.now.writes, self.now.begun
        for site in sites:
            before = self._before.get(site, frozenset())
            calls = (calls - before) | {site}
            if site not in self._early:
                writes = (writes - before) | {site}
                begun -= {site}
        self.now = Ended(calls, writes, begun)

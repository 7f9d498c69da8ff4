"""Which calls have to have ended before another begins, in the order of the program. Knows numbers of sites.

A call that is not early comes after all that the program awaited before it. An early one comes after those that are
not early and were begun before it, awaited or not: begun earlier than they are, it would not see what they do. A set of
sites is an integer with a bit for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .work import Work

__all__ = ["Ended", "Order", "numbers_in"]


@dataclass(slots=True)
class Ended:
    """The calls awaited so far, without those that another one of them waited for. Never changed."""

    calls: int = 0
    writes: int = 0
    """The same of the calls that are not early alone."""
    begun: int = 0
    """Calls that are not early, were begun, and not awaited yet."""

    def __or__(self, other: Ended) -> Ended:
        return Ended(self.calls | other.calls, self.writes | other.writes, self.begun | other.begun)


class Order:
    """The order of one program's calls.

    Args:
        early: the sites of calls that may be made before the program gets there.
        work: the budget.
    """

    def __init__(self, early: Collection[int], work: Work) -> None:
        self._early = early
        self._before: dict[int, int] = {}
        self._work = work
        self.now = Ended()

    def begins(self, site: int) -> int:
        """The program has come to a call: what has to have ended."""
        now = self.now
        if site in self._early:
            before = now.writes | now.begun
        else:
            before = now.calls
            self.now = Ended(now.calls, now.writes, now.begun | 1 << site)
        self._before[site] = before
        return before

    def ends(self, sites: int) -> None:
        """The program goes on when these calls have ended."""
        calls, writes, begun = self.now.calls, self.now.writes, self.now.begun
        self._work(sites.bit_count())
        for site in numbers_in(sites):
            others, this = ~self._before.get(site, 0), 1 << site
            calls = calls & others | this
            if site not in self._early:
                writes = writes & others | this
                begun &= ~this
        self.now = Ended(calls, writes, begun)


def numbers_in(sites: int) -> Iterator[int]:
    """The numbers of these sites, in order."""
    while sites:
        lowest = sites & -sites
        yield lowest.bit_length() - 1
        sites ^= lowest

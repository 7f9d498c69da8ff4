"""What it may cost to make a plan of a program: one budget for all of it, and everything is paid for before it is done.

Plans are made on the host's event loop, of programs that anybody may have written. A unit is half a microsecond or so,
and 25 bytes at most of what is kept.
"""

from __future__ import annotations

from typing import Final

from callgate.program.graph.reasons import NotAGraph, Refusal

__all__ = ["MOST_WORK", "Work"]

MOST_WORK: Final = 400_000
_SPLIT: Final = "split it, or use loops"


class Work:
    """What is left of one program's budget."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most

    def __call__(self, units: int) -> None:
        """Pay for what comes next. Raises a `Refusal` where that is too much."""
        self.left -= units
        if self.left < 0:
            raise Refusal(NotAGraph(1, "the program", "it is too much to follow", _SPLIT))

    def union(self, *sets: frozenset[str]) -> frozenset[str]:
        """All of these names; one of the sets itself, where it has them all."""
        if not sets:
            return frozenset()
        if len(sets) == 1:
            return sets[0]
        most = max(sets, key=len)
        self(sum(map(len, sets)) >> 3)
        others = [each for each in sets if not each <= most]
        if not others:
            return most
        self(len(most) + sum(map(len, others)) >> 1)  # it is kept, and takes 50 bytes for each
        return most.union(*others)

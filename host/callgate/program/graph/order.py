"""Which steps of a plan have to have ended before another begins, so that it has the effects of the program.

A call that does more than read comes after all that the program awaited before it. One that reads comes after those
that do more and were begun before it, awaited or not: begun earlier than they are, it would not see what they do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["Order"]


class Order:
    """The order of one program's calls, as the program comes to them."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._before: dict[str, set[str]] = {}
        self._ended: set[str] = set()
        """Steps that were awaited, without those that another one waits for."""
        self._writes: set[str] = set()
        """The same of those that do more than read."""
        self._begun: set[str] = set()
        """Those that do more than read, and that nobody has awaited."""

    def begin(self, step: str, *, early: bool, needs: Collection[str] = ()) -> list[str]:
        """The program has come to a call. Returns what has to have ended, but for those whose result it needs."""
        before = self._writes | self._begun if early else set(self._ended)
        if not early:
            self._begun.add(step)
        self._number[step] = len(self._number)
        self._before[step] = before
        return sorted(before.difference(needs), key=self._number.__getitem__)

    def end(self, steps: Iterable[str]) -> None:
        """The program goes on when these calls have ended."""
        for step in steps:
            self._ended = self._ended - self._before[step] | {step}
            if step in self._begun:
                self._begun.discard(step)
                self._writes = self._writes - self._before[step] | {step}

"""Looks at programs, one after the other, and keeps what was found in those that were looked at last. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from .gate.cache import Cache

__all__ = ["Looks"]

_LONG: Final = 2 * 1024
"""Characters; it takes some milliseconds to look at a program of that length, and up to 20 at a hostile one."""
_KEPT_BYTES: Final = 200
"""Memory of what is kept of a program, for each character of its source: a graph's tree and closures."""

T = TypeVar("T")


class Looks:
    """What was found in the programs that were looked at last.

    Args:
        max_entries: how many of them are kept.
        max_bytes: of all that is kept, about. A program that takes an eighth of it alone is not kept.
    """

    def __init__(self, *, max_entries: int = 512, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.kept: Cache[Hashable, Any] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        self._most = max_bytes // 8
        self._turn = anyio.Lock()

    async def look(self, source: str, looking: Callable[[], T], key: Hashable = None) -> T:
        """What `looking` finds in `source`, or found there earlier.

        One program is looked at at a time, and others have their turn in between; a long one in a thread. Python gives
        others their turn between any two steps of a look but the parser's and the compiler's, and those two are
        bounded: see `callgate.program.syntax`.

        Args:
            source: the program.
            looking: looks at it.
            key: all that the outcome depends on; None: it is not kept.
        """
        found: T | None = None if key is None else self.kept.get(key)
        if found is not None:
            return found
        async with self._turn:
            await anyio.lowlevel.checkpoint()
            found = await anyio.to_thread.run_sync(looking) if len(source) > _LONG else looking()
        self._keep(key, found, source)
        return found

    def look_at_once(self, source: str, looking: Callable[[], T], key: Hashable) -> T:
        """The same, without waiting."""
        found: T | None = self.kept.get(key)
        if found is None:
            found = looking()
            self._keep(key, found, source)
        return found

    def _keep(self, key: Hashable, found: Any, source: str) -> None:
        size = _KEPT_BYTES * len(source)
        if key is not None and size <= self._most:
            self.kept.keep(key, found, size)

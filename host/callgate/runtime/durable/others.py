"""Runs that are due and that this process leaves to others, since it lacks tools of theirs. Takes no run.

1. Another process that shares the store may have the tools: a run is left alone for `LEAVES_SECONDS`, in which any
   process that has them and has room takes it.
2. After that time the run is taken all the same, so that it needs attention and says which tool is missing: nothing
   waits in silence. Its status has a time at which it is due again, and from then on it is left alone as long as it
   needs attention: a process that has the tools goes on with it by itself.
3. Such a run is looked at again after `LEAVES_SECONDS`, or later if there are many: somebody may have settled a call of
   the run, or want it to end, which any process can do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from typing import Any, Final

from callgate.durable.store import StoredRun

__all__ = ["LeftToOthers", "missing_tools"]

LEAVES_SECONDS: Final = 10.0
"""Ten times as long as a process needs to notice a run that is due."""
_LOOKS: Final = 100
"""Runs that need attention and are looked at again within `LEAVES_SECONDS`, at most: each look costs a query."""


def missing_tools(options: dict[str, Any], known: Container[str]) -> list[str]:
    """Tools that were there when a run was started and that it names, and that are not among `known`.

    Args:
        options: see `StoredRun.options`.
        known: names of tools.
    """
    return [name for name in options["offered"] if name not in known]


@dataclass(slots=True)
class _Left:
    """A run that is left alone."""

    missing: list[str]
    until: float
    """In seconds of the clock."""


class LeftToOthers:
    """The runs that one process leaves alone.

    Args:
        known: names of its tools, as they are now.
        clock: seconds that never go back.
    """

    def __init__(self, known: Container[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._known = known
        self._clock = clock
        self._left: dict[str, _Left] = {}

    def __len__(self) -> int:
        return len(self._left)

    def keep(self, due: Collection[str]) -> None:
        """Forget the runs that are not due any more: another process has taken them, or they sleep."""
        gone = self._left.keys() - due
        for run in gone:
            del self._left[run]

    def has(self, run: str) -> bool:
        """Whether a run that is due is left alone without another look, for now."""
        left = self._left.get(run)
        return left is not None and self._clock() < left.until and not self._has_all(left.missing)

    def leave(self, run: StoredRun) -> bool:
        """Whether to leave a run alone that is due, after a look at what it needs.

        Raises:
            ValueError, KeyError, TypeError: what is kept of the run is damaged.
        """
        missing = missing_tools(json.loads(run.options), self._known)
        if not missing or run.cancelled:  # any process can end it
            self._left.pop(run.id, None)
            return False
        left = self._left.get(run.id)
        if left is None:
            left = self._left[run.id] = _Left(missing, self._clock() + LEAVES_SECONDS)
        left.missing = missing
        if run.status == "needs_attention":
            left.until = self._clock() + LEAVES_SECONDS * max(1.0, len(self._left) / _LOOKS)
        return self._clock() < left.until

    def forget(self, run: str) -> None:
        """Look at a run again at once, if it is due."""
        self._left.pop(run, None)

    def _has_all(self, names: list[str]) -> bool:
        return all(name in self._known for name in names)

"""The most memory that a process and all it started take together, while something is done. Linux alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from callgate.bench.singles.measures.footprint import descendants, memory_of

__all__ = ["Peak", "watched"]

_EVERY_SECONDS = 0.01


class Peak:
    """What was seen.

    Attributes:
        bytes: proportional shares (Pss) of all of them together, at the worst moment; 0 where nothing could be seen.
    """

    def __init__(self) -> None:
        self.bytes = 0

    def look(self, pid: int) -> None:
        """Once."""
        taken = 0
        for each in (pid, *descendants(pid)):
            try:
                taken += memory_of(each).share
            except (OSError, KeyError):  # it has just ended, or is not ours to look at
                continue
        self.bytes = max(self.bytes, taken)


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Look at a process again and again until the context is left. It disturbs: not for what is timed."""
    peak = Peak()
    over = Event()

    def look() -> None:
        peak.look(pid)
        while not over.wait(_EVERY_SECONDS):
            peak.look(pid)

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()

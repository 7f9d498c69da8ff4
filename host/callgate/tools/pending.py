"""Notes that wait for whoever keeps them, in a file say. Knows no clock and no file.

What is noted and kept (`Statistics`, what searches taught, trials) is a `Pending`: it says what is noted, and whoever
keeps notes drains them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from callgate.errors import ConfigurationError

__all__ = ["Pending"]

Note = TypeVar("Note")


class Pending(Generic[Note]):
    """What notes things that somebody may keep. Belongs to one event loop."""

    kept_already: ClassVar[str]
    """What a second keeper is told."""
    most_pending: ClassVar[int | None] = None
    """So many notes wait to be drained; beyond that the oldest go."""

    def __init__(self) -> None:
        self._pending: deque[Note] | None = None
        self._batch = 0
        self._on_batch: Callable[[], None] | None = None

    def keep(self, batch: int, on_batch: Callable[[], None]) -> None:
        """From now on hold every note ready for `drain`.

        Args:
            batch: how many notes make a batch.
            on_batch: called by what notes, each time that another batch has come together; must be quick.

        Raises:
            ConfigurationError: somebody keeps them already.
        """
        if self._pending is not None:
            raise ConfigurationError(self.kept_already)
        self._pending, self._batch, self._on_batch = deque(maxlen=self.most_pending), batch, on_batch

    def keep_no_more(self) -> None:
        """End what `keep` began; what was not drained is held no longer."""
        self._pending = self._on_batch = None

    def drain(self) -> list[Note]:
        """What was noted since the last time, the oldest first; empty when nobody keeps notes."""
        pending = self._pending
        return [pending.popleft() for _ in range(len(pending))] if pending else []

    def _hold(self, note: Note) -> None:
        """Hold a note for whoever keeps them."""
        if self._pending is not None:
            self._pending.append(note)
            if len(self._pending) % self._batch == 0 and self._on_batch is not None:
                self._on_batch()

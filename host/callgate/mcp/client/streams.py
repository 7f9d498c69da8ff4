"""What a transport gives a session, and what it has to say about its end."""

from __future__ import annotations

from typing import Any

import anyio

__all__ = ["BROKEN", "NOT_SENT", "Fate", "Pace", "Streams"]

NOT_SENT = -32950
"""Code of an error that a transport makes: the request did not reach the server."""
BROKEN = -32951
"""Code of an error that a transport makes: the request was sent, and no answer came."""

Streams = tuple[Any, Any]
"""What is read and what is written; the SDK does not export their types."""


class Fate:
    """How one connection is going, and why it ended."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it is over; the first reason that was given."""
        self.remedy = ""
        """What the operator may do about that."""
        self.garbage_lines = 0
        self.garbage_bytes = 0
        self.garbage_example = ""
        """The first of what was no message, as one line."""
        self.over = anyio.Event()
        """Set when nothing more can come."""

    @property
    def is_sealed(self) -> bool:
        return bool(self.reason)

    def explain(self, reason: str) -> None:
        """This is why it will be over, if nothing else was."""
        self.reason = self.reason or reason

    def seal(self, reason: str) -> None:
        """The connection is over, for this reason."""
        self.explain(reason)
        self.over.set()


class Pace:
    """So many messages at once, and so many a second after that; whoever sends more is read more slowly."""

    def __init__(self, at_once: int, per_second: int) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = float(at_once)
        self._counted = anyio.current_time()

    async def keep(self, messages: float = 1) -> None:
        """Count these messages, and wait where they are too many."""
        now = anyio.current_time()
        self._left = min(self._at_once, self._left + (now - self._counted) * self._per_second) - messages
        self._counted = now
        if self._left < 0:
            await anyio.sleep(-self._left / self._per_second)

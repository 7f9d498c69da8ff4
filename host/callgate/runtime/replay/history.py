"""The recorded events of a program, as values. Knows how they stand on the wire; runs and stores nothing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from callgate.protocol.run import encode
from callgate_guest.wire import EVENT

__all__ = ["History", "ReplayEvent"]

_CHUNK_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """Something that the program received: the outcome of a call, or the end of a timer."""

    time: float
    """Seconds since 1970; never less than that of the event before."""
    number: int | None = None
    """The guest's number of the call; None for a timer."""
    tool: str = ""
    arguments: str = "{}"
    """JSON, as the program gave them."""
    outcome: str = "null"
    """JSON: the result, or the error object of a call that failed."""
    failed: bool = False

    @property
    def message(self) -> bytes:
        """The event on the wire."""
        if self.number is None:
            return f'{{"jsonrpc":"2.0","method":"{EVENT}","params":{{"time":{self.time!r}}}}}\n'.encode()
        return self._reply("")

    @property
    def recorded(self) -> bytes:
        """The event on the wire, as part of a history: a guest compares the call."""
        if self.number is None:
            return self.message
        return self._reply(f',"call":[{encode(self.tool)},{encode(self.arguments)}]')

    def _reply(self, more: str) -> bytes:
        member = "error" if self.failed else "result"
        text = f'{{"jsonrpc":"2.0","{member}":{self.outcome},"id":{self.number},"time":{self.time!r}{more}}}\n'
        return text.encode()


@dataclass(frozen=True, slots=True)
class History:
    """What a program received so far, from its beginning; with it, a guest does the same again."""

    seed: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    """All randomness of the program comes from it."""
    start: float = field(default_factory=time.time)
    """Seconds since 1970 when the program began."""
    events: tuple[ReplayEvent, ...] = ()

    def cut(self, events: int) -> History:
        """The first events alone."""
        return replace(self, events=self.events[:events])

    @property
    def last(self) -> float:
        """Time of the last event."""
        return self.events[-1].time if self.events else self.start

    @property
    def member(self) -> str:
        """The member ``replay`` of an `execute` request."""
        return f'{{"seed":"{self.seed.hex()}","start":{self.start!r},"events":{len(self.events)}}}'

    def lines(self) -> Iterator[bytes]:
        """The events on the wire, in pieces: all of them at once may take too much memory."""
        piece = bytearray()
        for event in self.events:
            piece += event.recorded
            if len(piece) > _CHUNK_BYTES:
                yield bytes(piece)
                piece.clear()
        if piece:
            yield bytes(piece)

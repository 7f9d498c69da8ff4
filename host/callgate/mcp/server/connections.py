"""How long a connection may be open without a request of it being worked on, and how many there may be. Knows uvicorn's
connections; who is let in is the guard's, and a request that was let in takes as long as it takes.

1. Headers are complete within `header_seconds`, counted from the connection or from the answer before; single bytes
   that keep coming change nothing. The rest of a body whose request was answered without it has as long.
2. Of connections that never had complete headers `MAX_HALF_OPEN` are open at a time. A further one has the oldest
   closed, so that whoever holds many of them is in nobody's way but its own.
3. Beyond `most_connections` requests are answered with 503.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

__all__ = ["MAX_HALF_OPEN", "Config", "most_connections"]

MAX_HALF_OPEN = 128
_MOST_CONNECTIONS = 1_024


class Config(uvicorn.Config):
    """uvicorn's, with connections that end in time.

    Args:
        app: the application.
        header_seconds: see the rules.
        options: uvicorn's own.
    """

    def __init__(self, app: Any, *, header_seconds: float, **options: Any) -> None:
        super().__init__(app, http=Connection, limit_concurrency=most_connections(), **options)
        self.header_seconds = header_seconds


class Connection(H11Protocol):
    """One connection. (uvicorn's own timer is for what is idle after an answer, and any byte resets it.)"""

    config: Config
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        half_open = [each for each in self.connections if isinstance(each, Connection) and each._half_open]
        # one that is aborted is among them until the next turn of the loop, and many may come in one turn
        half_open = [each for each in half_open if not each.transport.is_closing()]
        if len(half_open) > MAX_HALF_OPEN:
            min(half_open, key=Connection._until).transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    @property
    def _half_open(self) -> bool:
        return self._cycle() is None and self._deadline is not None

    def _until(self) -> float:
        return 0.0 if self._deadline is None else self._deadline.when()

    def _cycle(self) -> RequestResponseCycle | None:
        """The newest request that had complete headers."""
        return self.cycle

    def _watch(self) -> None:
        cycle = self._cycle()
        if (cycle is not None and not cycle.response_complete) or self.transport.is_closing():
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.config.header_seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def most_connections() -> int:
    """So many may be open: half of the descriptors that this process may have, the others are for guests."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(soft // 2, _MOST_CONNECTIONS), 16)

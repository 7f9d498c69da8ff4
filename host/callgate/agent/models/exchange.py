"""The HTTP of one request to a model: counts requests, bounds the body, notices when the reply is whole. Sends nothing.

1. An SDK reads as much as it is given, so this file ends a body at `most_bytes`.
2. A reply is whole at its last word. The rest of a stream (usage, the end of the body) is waited for only shortly, and
   a connection that breaks then is not an error.
3. A pause longer than two minutes is reported at once instead of waited for.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2

from .connection import MOST_PAUSE_SECONDS, pause_of

__all__ = ["CURRENT", "Exchange", "http_client", "other_http_client"]

_MOST_JSON_BYTES = 8_000_000
"""Size of a whole reply, and of one event of a stream: read as JSON, it takes up to 25 times as much memory."""
_USAGE_SECONDS, _END_SECONDS = 3.0, 0.25
"""How long the rest of a whole reply is waited for: until its usage has come, and until the end of its body."""
_HEAD_BYTES = 4_000
"""Of a body, kept for error texts."""
_SHOWN = 400
"""Characters of that in an error."""


@dataclass(slots=True)
class Exchange:
    """The HTTP of one attempt.

    Attributes:
        most_bytes: of the body of one response.
        sent: requests so far, with the SDK's own retries.
        pause: seconds that the last response asks to be left alone; None where it does not say.
        began: the last request has a response, and it is not an error.
        events: the last response is a stream of events.
        too_long: what is wrong with the size of the body; empty where nothing is.
        head: the first bytes of the body, for error texts.
        whole: whether the reply is whole, and whether its usage has come.
    """

    most_bytes: int
    sent: int = 0
    pause: float | None = None
    began: bool = False
    events: bool = False
    too_long: str = ""
    head: bytes = b""
    whole: Callable[[], tuple[bool, bool]] = lambda: (False, False)

    def shown(self, redacted: Callable[[str], str]) -> str:
        """The beginning of what the endpoint sent, for an error text; empty where nothing came.

        Args:
            redacted: takes secrets out of a text, before it is cut: a secret at the cut would be shown in part.
        """
        return f"; it sent: {redacted(self.head.decode(errors='replace'))[:_SHOWN]}" if self.head else ""

    async def read(self, stream: Any) -> AsyncGenerator[bytes]:
        """The pieces of the body, up to its bound, and without a long wait once the reply is whole."""
        limit = self.most_bytes if self.events else min(self.most_bytes, _MOST_JSON_BYTES)
        size = line = 0
        deadline = math.inf
        async with contextlib.aclosing(aiter(stream)) as pieces:
            while True:
                whole, counted = self.whole()
                if whole:
                    deadline = min(deadline, anyio.current_time() + (_END_SECONDS if counted else _USAGE_SECONDS))
                piece: bytes | None = None
                try:
                    with anyio.CancelScope(deadline=deadline):
                        piece = await anext(pieces, None)
                except httpx2.HTTPError:
                    if not whole:
                        raise
                if piece is None:
                    return
                size += len(piece)
                line = len(piece) - piece.rfind(b"\n") - 1 if b"\n" in piece else line + len(piece)
                if size > limit or line > _MOST_JSON_BYTES:
                    most = limit if size > limit else _MOST_JSON_BYTES
                    self.too_long = f"it is longer than {most} bytes"
                    self.too_long += " (max_reply_bytes)" if most == self.most_bytes else ""
                    return
                if len(self.head) < _HEAD_BYTES:
                    self.head += piece[:_HEAD_BYTES]
                yield piece


CURRENT: ContextVar[Exchange] = ContextVar("exchange")
"""The exchange that the running task is in; SDKs send in the task that asks them."""


class _Body(httpx2.AsyncByteStream):
    """The body of a response, within its exchange."""

    def __init__(self, exchange: Exchange, stream: Any) -> None:
        self._stream = stream
        self._pieces = exchange.read(stream)

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        with contextlib.suppress(RuntimeError):  # another task is reading it
            await self._pieces.aclose()
        await self._stream.aclose()


def http_client(make: Any, **options: Any) -> Any:
    """An HTTP client whose requests and responses are noted in the current `Exchange`.

    Args:
        make: the class of the client: `httpx2`'s, or an SDK's.
        options: of the client.
    """
    # a body that is not compressed has the size that is counted
    headers = {"accept-encoding": "identity"}
    hooks: dict[str, list[Any]] = {"request": [_sent], "response": [_came]}
    return make(headers=headers, event_hooks=hooks, **options)


def other_http_client(timeout_seconds: float) -> Any:
    """An `http_client` for a provider whose SDK has no class of its own."""
    return http_client(httpx2.AsyncClient, timeout=timeout_seconds, follow_redirects=True)


async def _sent(request: Any) -> None:
    exchange = CURRENT.get()
    exchange.sent += 1
    exchange.pause, exchange.began, exchange.head = None, False, b""


async def _came(response: Any) -> None:
    exchange = CURRENT.get()
    exchange.pause = pause_of(response.headers)
    if (exchange.pause or 0) > MOST_PAUSE_SECONDS:
        response.headers["x-should-retry"] = "false"  # both SDKs go by this header
    exchange.began = response.status_code < 400
    exchange.events = "event-stream" in response.headers.get("content-type", "")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the endpoint compresses its reply, though it was asked not to")
    response.stream = _Body(exchange, response.stream)

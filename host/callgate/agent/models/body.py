"""The body of a response, read in pieces: bounded, and closed however its reader is left. Knows no provider."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio

from .replies import BadReply

__all__ = ["WIND_UP_SECONDS", "Body", "BrokenOff", "reading", "struck", "told"]

WIND_UP_SECONDS = 1.0
"""The most that closing a response may take."""
_REASON_CHARACTERS = 400


class BrokenOff(Exception):
    """The reply ended in the middle."""


class Body:
    """The body of a response in pieces, bounded."""

    def __init__(self, response: Any, most: int) -> None:
        self._pieces = response.http_response.aiter_bytes()
        self._most = most
        self._bytes = 0
        self.over = False

    async def next(self) -> bytes | None:
        """The next piece; None at the end.

        Raises:
            BrokenOff: it ended in the middle, or nothing came for too long.
            BadReply: it is too long.
        """
        try:
            piece: bytes = await anext(self._pieces)
        except StopAsyncIteration:
            self.over = True
            return None
        except Exception as error:  # of the HTTP library that the SDK has
            self.over = True
            raise BrokenOff(told(error)) from error
        self._bytes += len(piece)
        if self._bytes > self._most:
            raise BadReply(f"it is longer than {self._most} bytes (max_reply_bytes)")
        return piece

    async def wind_up(self) -> None:
        """After the response was closed: generators that wait for more of it come to their end."""
        with contextlib.suppress(Exception):
            while not self.over:
                self._bytes = 0
                await self.next()


@contextlib.asynccontextmanager
async def reading(response: Any, most: int) -> AsyncIterator[Body]:
    """Read a response of an SDK.

    Args:
        response: whose body was not read.
        most: bytes; where there are more, `BadReply` is raised.
    """
    body = Body(response, most)
    try:
        yield body
    finally:
        if not body.over:
            with anyio.move_on_after(WIND_UP_SECONDS, shield=True):
                await response.close()
                await body.wind_up()


def told(error: BaseException, secrets: Sequence[str] = ()) -> str:
    """An error in one line, with its type, and without these texts."""
    text = " ".join(struck(str(error), secrets).split())
    return f"{type(error).__name__}: {text}"[:_REASON_CHARACTERS] if text else type(error).__name__


def struck(text: str, secrets: Sequence[str]) -> str:
    """The text without these: gateways repeat the key that they refuse, and HTTP libraries a header that is none."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return text

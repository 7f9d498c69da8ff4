"""The sandboxes that are kept between programs, each found by a handle. Knows when they end: with the client session,
when idle for long, or when their program was killed.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import anyio

from callgate.errors import ToolError
from callgate.runtime import Runtime, Session

__all__ = ["NEW", "Room", "Sandboxes"]

NEW = "new"


@dataclass(slots=True)
class Room:
    """How many sandboxes all client sessions together may keep: programs that stand alone need some, too."""

    most: int
    taken: int = 0

    @classmethod
    def of(cls, runtime: Runtime) -> Room:
        """Half of the runtime's guests."""
        return cls(max(1, runtime.max_guests // 2))


@dataclass(slots=True)
class _Kept:
    block: AbstractAsyncContextManager[Session]
    session: Session
    used: float
    running: int = 0


class Sandboxes:
    """Kept by one client session, or for everybody who knows a handle.

    Args:
        runtime: whose sandboxes.
        most: so many at the same time.
        idle_seconds: one that is not used for so long is ended.
        room: what there is for this and all others.
        shared: they are several users', who must not learn of each other's handles.
    """

    def __init__(
        self, runtime: Runtime, most: int, idle_seconds: float, *, room: Room | None = None, shared: bool = False
    ) -> None:
        self._shared = shared
        self._room = Room.of(runtime) if room is None else room
        self._runtime = runtime
        self._most = most
        self._idle_seconds = idle_seconds
        self._kept: dict[str, _Kept] = {}
        self._opening = 0
        self._closed = False

    async def open(self) -> str:
        """Begin one; returns its handle.

        Raises:
            ToolError: there are too many.
            SandboxError: no guest can be had.
        """
        await self.sweep()
        if len(self._kept) + self._opening >= self._most:
            way = "try again later" if self._shared else f"go on with one of {', '.join(self._kept)}"
            raise ToolError(f"{self._most} sessions are open, which is all there may be: {way}")
        if self._room.taken >= self._room.most:
            own = f"go on with one of {', '.join(self._kept)}, " if self._kept and not self._shared else ""
            raise ToolError(
                f"{self._room.most} sessions of all clients are open, which is all that this server keeps: {own}"
                "run the program without session, or try again later"
            )
        self._opening += 1
        self._room.taken += 1
        try:
            block = self._runtime.session()
            session = await block.__aenter__()
        except BaseException:
            self._room.taken -= 1
            raise
        finally:
            self._opening -= 1
        if self._closed:
            await self._leave(block)
            raise ToolError("the client session is over")
        handle = f"s_{secrets.token_urlsafe(9)}"
        self._kept[handle] = _Kept(block, session, time.monotonic())
        return handle

    @contextlib.asynccontextmanager
    async def use(self, handle: str) -> AsyncIterator[Session]:
        """The session of that handle, for one program. One that did not survive it is ended.

        Raises:
            ToolError: there is none, any more or at all.
        """
        kept = self._kept.get(handle)
        if kept is None:
            raise ToolError(
                f"there is no session {handle[:40]!r}: it has ended (sessions end with the connection, after "
                f"{self._idle_seconds:g} s without use, and when a program in them is cancelled or reaches a limit), "
                'or it never was; begin one with session="new"'
            )
        kept.running += 1
        try:
            yield kept.session
        finally:
            kept.running -= 1
            kept.used = time.monotonic()
            if not kept.session.alive:
                await self._end(handle)

    def __contains__(self, handle: object) -> bool:
        return handle in self._kept

    async def sweep(self) -> None:
        """End those that have been idle for too long."""
        now = time.monotonic()
        for handle, kept in list(self._kept.items()):
            if now - kept.used > self._idle_seconds and not kept.running:
                await self._end(handle)

    async def close(self) -> None:
        """End all of them."""
        self._closed = True
        for handle in list(self._kept):
            await self._end(handle)

    async def _end(self, handle: str) -> None:
        kept = self._kept.pop(handle, None)
        if kept is not None:
            await self._leave(kept.block)

    async def _leave(self, block: AbstractAsyncContextManager[Session]) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await block.__aexit__(None, None, None)
        finally:
            self._room.taken -= 1

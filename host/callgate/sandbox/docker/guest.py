"""A guest in a container, behind the interface of every guest."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from callgate.errors import SandboxCrashed
from callgate.sandbox.backend import Collected, GuestExit, Stream, Usage
from callgate.sandbox.streams import END, Inbox
from callgate_guest import frames
from callgate_guest.frames import Frame, frame
from callgate_guest.wire import OUT_OF_MEMORY

from .container import Container, json_object
from .files import Collecting

__all__ = ["ContainerGuest"]

_FRESH_SECONDS = 1.0
"""`healthy` does not ask a guest that sent something within this time: asking costs a round trip."""
_PONG_SECONDS = 1.0
_END_SECONDS = 1.0
"""Longest wait for the supervisor to report its guest's end; then the container is removed."""
_OPEN_SECONDS = 10.0
_COLLECT_SECONDS = 10.0
_SURE_SECONDS = 0.05
"""A supervisor that sent something within this time, and not that its guest has touched /output, need not be asked."""
_LOST = "the files in /output are lost: the container has ended, or did not answer in time"
_MOST_SECONDS = 1e9
_MOST_BYTES = 1 << 50


class ContainerGuest:
    """One guest of a container.

    Args:
        container: where the guest runs; it serves no other guest meanwhile.
        give_back: called at the end with the container, and whether the container may serve another guest.
    """

    def __init__(self, container: Container, give_back: Callable[[Container, bool], Awaitable[None]]) -> None:
        self.container = container
        self._link = container.link
        self._give_back = give_back
        self._inbox = self._link.inbox = Inbox()
        self._link.hear = self._hear
        self._link.deaf = False
        self._usage: Usage | None = None
        self._exit: GuestExit | None = None
        self._heard = time.monotonic()
        self._pongs = 0
        self._hung_up = False
        self._killed = False
        self._kill_owed = False
        self._over = anyio.Lock()
        self._given_back = False
        self._touched = False  # whether the guest has put something into /output
        self._collecting: Collecting | None = None

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds, or the guest or its link has ended."""
        while not (condition() or self._exit is not None or self._link.ended or self._link.closed):
            await self._link.changed()

    async def opened(self) -> None:
        """Wait until the guest exists. Raises `SandboxCrashed` if it could not be forked."""
        with anyio.move_on_after(_OPEN_SECONDS) as waiting:
            await self._until(lambda: self._usage is not None)
        if waiting.cancelled_caught:
            raise SandboxCrashed(f"a container did not fork a guest within {_OPEN_SECONDS:g} s: it is overloaded")
        if self._usage is None:
            raise SandboxCrashed(self._exit.reason if self._exit is not None else self._why())

    async def send(self, data: bytes) -> None:
        if self._link.over:  # the supervisor would accept data for a guest that has ended
            raise SandboxCrashed("the guest is gone")
        await self._link.send(frames.frames(frames.WIRE, data))
        if self._killed:  # while this waited
            raise SandboxCrashed("the guest is gone")

    @property
    def alive(self) -> bool:
        return not self._link.deaf and not self._link.hung_up()

    async def healthy(self) -> bool:
        if not self.alive or time.monotonic() - self._heard < _FRESH_SECONDS:
            return self.alive
        before = self._pongs
        with anyio.move_on_after(_PONG_SECONDS), contextlib.suppress(SandboxCrashed):
            await self._link.send(frame(frames.PING))
            await self._until(lambda: self._pongs > before)
        return self._pongs > before and self.alive

    async def receive(self) -> tuple[Stream, bytes]:
        await self._until(lambda: self._inbox.held > 0)
        item = self._inbox.take() or END
        self._link.go_on()
        return item

    def unread_output(self) -> bytes:
        self._link.pump()
        output = self._inbox.take_output()
        self._link.go_on()
        return output

    def usage(self) -> Usage | None:
        return self._exit.usage if self._exit is not None else self._usage

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            if self._exit is None and not self._link.send_now(frame(frames.KILL)):
                if self._hung_up or self._link.deaf:
                    self._kill_owed = True  # most likely the guest is dead, and its end is on its way
                else:
                    self._link.hang_up()  # which ends the container
            self._link.deaf = True
            self._inbox.clear()
            self._inbox.put(*END)
            self._link.go_on()
            self._link.tell()

    async def aclose(self) -> GuestExit:
        sound = self._killed  # a run that ended well calls `kill` first; one that failed comes here at once
        self.kill()
        with anyio.CancelScope(shield=True):
            async with self._over:
                if not self._given_back:
                    self._given_back = True
                    try:
                        await self._hear_the_end()
                    finally:
                        known = self._exit is not None and self._exit.status is not None
                        await self._give_back(self.container, sound and known and not self._link.closed)
        self._exit = self._exit or GuestExit(None, self._usage, self._why())
        return self._exit

    @property
    def collect(self) -> Callable[[int, int], Awaitable[Collected]] | None:
        """See `Guest`. ``None`` where guests have no /output."""
        return self._collect if self.container.collects else None

    async def _collect(self, most: int, most_bytes: int) -> Collected:
        """A container that does not answer as it must, in time, ends here."""
        untouched = not self._touched and time.monotonic() - self._heard < _SURE_SECONDS
        if untouched or self._collecting is not None:
            return Collected()
        if self._killed:
            await self._hear_the_end()
            if self._exit is None or not self._touched:
                return Collected(left=(_LOST,) if self._touched else ())
        self._collecting, deaf = (asked := Collecting(most, most_bytes)), self._link.deaf
        try:
            with anyio.move_on_after(_COLLECT_SECONDS), self._link.reading_ahead():
                self._link.deaf = False
                wanted = {"most": most, "most_bytes": most_bytes}
                with contextlib.suppress(SandboxCrashed):
                    await self._link.send(frame(frames.COLLECT, json.dumps(wanted).encode()))
                while not (asked.over or self._link.ended or self._link.closed):
                    await self._link.changed()
            if not asked.over:
                asked.broken(_LOST)
            if not asked.sound:
                self._link.hang_up()
        finally:
            self._collecting = None
            self._link.deaf = deaf or self._link.deaf
        return asked.collected

    async def _hear_the_end(self) -> None:
        """Wait for the guest's end; a container that does not report it in time gets no other guest."""
        with anyio.move_on_after(_END_SECONDS):
            if self._kill_owed:
                self._link.deaf = False
                with contextlib.suppress(SandboxCrashed):
                    await self._link.send(frame(frames.KILL))  # after what is left of a message to it
            await self._until(lambda: False)

    def _hear(self, found: Frame) -> None:
        kind, payload = found
        self._heard = time.monotonic()
        if kind in (frames.WIRE, frames.SPAWNED) and len(payload) >= frames.USAGE.size:
            usage = _usage(*frames.USAGE.unpack_from(payload))
            if usage is not None and (usage.peak_memory_bytes or self._usage is None):
                self._usage = usage
            if kind == frames.WIRE and len(payload) > frames.USAGE.size:
                self._keep("wire", payload[frames.USAGE.size :])
        elif kind == frames.OUTPUT:
            self._keep("output", payload)
        elif kind == frames.HUNG_UP and payload:
            self._link.deaf = self._link.deaf or not self._killed
        elif kind == frames.HUNG_UP:
            self._hang_up_once()
        elif kind == frames.PING:
            self._pongs += 1
        elif kind == frames.TOUCHED:
            self._touched = True
        elif kind in (frames.FILE, frames.PART, frames.COLLECTED) and self._collecting is not None:
            self._collecting.hear(found)
        else:
            if kind == frames.EXITED:
                self._exit = _exit(json_object(payload))
            else:
                why = json_object(payload).get("reason") if kind == frames.FAILED else f"a frame of kind {kind!r}"
                self._exit = GuestExit(None, self._usage, f"the container failed: {str(why)[:1000]}")
            self._link.deaf = True
            self._hang_up_once()

    def _hang_up_once(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            self._keep(*END)

    def _keep(self, stream: Stream, data: bytes) -> None:
        if not self._killed:
            self._inbox.put(stream, data)

    def _why(self) -> str:
        return self._link.why or (
            f"the container went away in the middle of the run: it was removed, or the Docker engine at "
            f"{self.container.engine.host} was stopped; see that it runs (`callgate doctor`) and run the program again"
        )


def _exit(report: dict[str, Any]) -> GuestExit:
    """A supervisor's report of a guest's end, checked: the supervisor may be taken over."""
    status = report.get("status")
    if type(status) is not int or not -64 <= status <= 255:
        return GuestExit(None, None, "the container said nothing sensible of the program's end")
    if report.get("out_of_memory") is True and status == -9:
        status = OUT_OF_MEMORY
    return GuestExit(status, _usage(report.get("cpu"), report.get("peak")))


def _usage(cpu: object, peak: object) -> Usage | None:
    """Figures of a supervisor's report; ``None`` if they are impossible."""
    if type(cpu) not in (int, float) or type(peak) is not int:
        return None
    assert isinstance(cpu, int | float)
    assert isinstance(peak, int)
    if not 0 <= cpu < _MOST_SECONDS or not 0 <= peak < _MOST_BYTES:  # NaN fails this, too
        return None
    return Usage(float(cpu), peak)

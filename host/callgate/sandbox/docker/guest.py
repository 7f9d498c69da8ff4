"""A guest in a container, as the rest of callgate sees guests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

from callgate.errors import SandboxCrashed
from callgate.sandbox.backend import GuestExit, Stream, Usage
from callgate.sandbox.streams import END, Inbox
from callgate_guest import frames
from callgate_guest.frames import Frame, frame
from callgate_guest.wire import OUT_OF_MEMORY

from .container import Container, json_object
from .link import cost

__all__ = ["ContainerGuest"]

_FRESH_SECONDS = 1.0
"""A guest heard of within this time is not asked: it costs a round trip."""
_PONG_SECONDS = 1.0
_END_SECONDS = 1.0
"""For a supervisor to say how its guest ended; afterwards the container goes with all that is in it."""
_OPEN_SECONDS = 10.0
_HELD = 1 << 20
_HELD_SENDING = 1 << 22
"""Read ahead by whoever sends, for the guest's end. More than a guest that ends can leave in the supervisor and the
engine, so that its end is found behind what nobody has received."""
_TURN = 1 << 16
_MOST_SECONDS = 1e9
_MOST_BYTES = 1 << 50


class ContainerGuest:
    """One guest of a container.

    Args:
        container: where it runs; it serves no other guest while this one is there.
        engine_host: where the engine listens, for people.
        give_back: called at the end with the container, and whether another guest may run in it.
    """

    def __init__(
        self, container: Container, engine_host: str, give_back: Callable[[Container, bool], Awaitable[None]]
    ) -> None:
        self._container = container
        self._link = container.link
        self._engine_host = engine_host
        self._give_back = give_back
        self._inbox = Inbox()
        self._unwaited = 0  # bytes given out since others had a turn
        self._usage: Usage | None = None
        self._exit: GuestExit | None = None
        self._heard = time.monotonic()
        self._pongs = 0
        self._hung_up = False
        self._deaf = False
        self._killed = False
        self._kill_owed = False
        self._over = anyio.Lock()
        self._given_back = False
        self._link.unheard = self._unheard

    async def opened(self) -> None:
        """Wait until it is there. Raises `SandboxCrashed` where it cannot be had."""
        late = True
        with anyio.move_on_after(_OPEN_SECONDS):
            while self._usage is None and self._exit is None and await self._next():
                pass
            late = False
        if self._usage is None:
            slow = f"a container did not fork a guest within {_OPEN_SECONDS:g} s: the machine is overloaded"
            raise SandboxCrashed(self._exit.reason if self._exit is not None else slow if late else self._why())

    @property
    def container(self) -> Container:
        """Where it runs."""
        return self._container

    async def send(self, data: bytes) -> None:
        if self._unheard() or self._link.ended:  # the supervisor takes what is sent to a guest that has ended
            raise SandboxCrashed("the guest is gone")
        await self._link.send(frames.frames(frames.WIRE, data))
        if self._killed:  # while it waited
            raise SandboxCrashed("the guest is gone")

    def _unheard(self) -> bool:
        """Whether what is sent to the guest is lost, as far as what has come tells."""
        self._look(_HELD_SENDING)
        return self._killed or self._deaf or self._exit is not None

    def _ended(self) -> bool:
        """Whether the guest's end has been told."""
        self._look()
        return self._exit is not None

    @property
    def alive(self) -> bool:
        self._look()
        return self._exit is None and not self._killed and not self._deaf and not self._link.hung_up()

    async def healthy(self) -> bool:
        if not self.alive:
            return False
        if time.monotonic() - self._heard < _FRESH_SECONDS:
            return True
        before = self._pongs
        with anyio.move_on_after(_PONG_SECONDS), contextlib.suppress(SandboxCrashed):
            await self._link.send(frame(frames.PING))
            while self._pongs == before and self._exit is None and await self._next():
                pass
        return self._pongs > before and self._exit is None

    async def receive(self) -> tuple[Stream, bytes]:
        await self._turn()
        while (item := self._inbox.take()) is None:
            if self._killed or self._exit is not None or not await self._next():
                return END
        return item

    async def _next(self) -> bool:
        """Hear one frame, or wait until something has changed; whether there may be more. Any task may."""
        await self._turn()
        if not self._link.inbox:
            self._link.pump()
        found = self._link.take()
        if found is not None:
            self._hear(found)
            return True
        if self._link.ended or self._link.closed:
            return False
        await self._link.changed()
        return True

    async def _turn(self) -> None:
        """Whoever floods the host does not keep it from its other work."""
        if self._unwaited > _TURN:
            self._unwaited = 0
            await anyio.lowlevel.checkpoint()

    def unread_output(self) -> bytes:
        self._look()
        return self._inbox.take_output()

    def usage(self) -> Usage | None:
        return self._exit.usage if self._exit is not None else self._usage

    def kill(self) -> None:
        if not self._killed:
            self._killed = True
            if self._exit is None and not self._link.send_now(frame(frames.KILL)):
                if self._hung_up or self._deaf:
                    self._kill_owed = True  # most likely it is dead already, and how it died is on its way
                else:
                    self._link.hang_up()  # which ends the container
            self._link.wake()
        self._inbox.clear()
        self._inbox.put(*END)

    async def aclose(self) -> GuestExit:
        sound = self._killed  # whoever kills first had no complaint; a run that failed ends here at once
        self.kill()
        with anyio.CancelScope(shield=True):
            async with self._over:
                if not self._given_back:
                    self._given_back = True
                    try:
                        await self._hear_the_end()
                    finally:
                        told = self._exit is not None and self._exit.status is not None
                        await self._give_back(self._container, sound and told and not self._link.closed)
        self._exit = self._exit or GuestExit(None, self._usage, self._why())
        return self._exit

    async def _hear_the_end(self) -> None:
        """Read, and forget, what comes until the guest's end; a container that does not tell it in time is hung up."""
        self._link.unheard = self._ended
        with anyio.move_on_after(_END_SECONDS):
            if self._kill_owed:
                with contextlib.suppress(SandboxCrashed):
                    await self._link.send(frame(frames.KILL))  # after what is left of a message to it
            while self._exit is None and await self._next():
                self._inbox.clear()
        self._inbox.put(*END)

    def _look(self, most: int = _HELD) -> None:
        """Take what has come, without waiting, while no more than `most` bytes are held."""
        self._link.pump()
        while self._inbox.held <= most and (found := self._link.take()) is not None:
            self._hear(found)

    def _hear(self, found: Frame) -> None:
        kind, payload = found
        self._heard = time.monotonic()
        self._unwaited += cost(found)
        if kind in (frames.WIRE, frames.SPAWNED) and len(payload) >= frames.USAGE.size:
            usage = _usage(*frames.USAGE.unpack_from(payload))
            if usage is not None and (usage.peak_memory_bytes or self._usage is None):
                self._usage = usage
            if kind == frames.WIRE and len(payload) > frames.USAGE.size:
                self._keep("wire", payload[frames.USAGE.size :])
        elif kind == frames.OUTPUT:
            self._keep("output", payload)
        elif kind == frames.HUNG_UP:
            if payload:
                self._deaf = True
                self._link.wake()
            else:
                self._hang_up_once()
        elif kind == frames.PING:
            self._pongs += 1
        elif kind == frames.EXITED:
            self._exit = _exit(json_object(payload))
            self._hang_up_once()
            self._link.wake()
        else:
            told = json_object(payload).get("reason") if kind == frames.FAILED else f"a frame of kind {kind!r}"
            self._exit = GuestExit(None, self._usage, f"the container failed: {str(told)[:1000]}")
            self._hang_up_once()
            self._link.wake()

    def _hang_up_once(self) -> None:
        if not self._hung_up:
            self._hung_up = True
            self._keep(*END)

    def _keep(self, stream: Stream, data: bytes) -> None:
        if not self._killed:
            self._inbox.put(stream, data)

    def _why(self) -> str:
        if self._link.why:
            return self._link.why
        return (
            f"the container went away in the middle of the run: it was removed, or the Docker engine at "
            f"{self._engine_host} was stopped; see that it runs (`callgate doctor`) and run the program again"
        )


def _exit(told: dict[str, Any]) -> GuestExit:
    """What a supervisor says of a guest's end, believed no further than its form."""
    status = told.get("status")
    if type(status) is not int or not -64 <= status <= 255:
        return GuestExit(None, None, "the container said nothing sensible of the program's end")
    if told.get("out_of_memory") is True and status == -9:
        status = OUT_OF_MEMORY
    return GuestExit(status, _usage(told.get("cpu"), told.get("peak")))


def _usage(cpu: object, peak: object) -> Usage | None:
    """Figures that a supervisor gave; ``None`` where they cannot be."""
    if type(cpu) not in (int, float) or type(peak) is not int:
        return None
    assert isinstance(cpu, int | float)
    assert isinstance(peak, int)
    if not 0 <= cpu < _MOST_SECONDS or not 0 <= peak < _MOST_BYTES:  # which NaN is not, either
        return None
    return Usage(float(cpu), peak)

"""Reads what a guest sends, prints its output, and submits its calls as jobs. Does not serve them.

Under asyncio, the callback that has read bytes takes what can be taken at once (`_hear`): a plain call begins there.
What may have to wait for other tasks is left to the task that reads (`_read_on`).
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from functools import partial
from itertools import chain

import anyio.lowlevel

from callgate.errors import LimitReached
from callgate.protocol.run import (
    CallCancelled,
    Called,
    Ended,
    Ending,
    Event,
    Other,
    RunWire,
    Showed,
    Withdrawn,
    Working,
    Wrote,
)
from callgate.sandbox.backend import Guest

from .driver import Driver
from .first_step import asyncio_task, in_the_name_of
from .gate.arguments import turn_of_others
from .gate.events import Displayed, Printed, tell
from .print_marks import PrintMarks
from .run import CodeRun

__all__ = ["GuestReader", "Job"]

Job = Called | Withdrawn | Other
"""What a guest asks the host to do."""
_JOBS = (Called, Withdrawn, Other)
_READ_AHEAD_BYTES = 4 << 20
"""Bytes of calls that wait for a worker, before the host stops reading from the guest."""
_EVENTS_A_TURN = 2_000
"""Messages of a guest before other tasks get a turn: a message may have 3 bytes, and one read 64 KiB."""


class GuestReader(Driver[object, Job]):
    """The reading half of a run on a guest.

    Args:
        run: the program.
        guest: runs the program.

    Attributes:
        ended: the guest's reply.
        ending: the guest's message that its program waits for calls.
        died: whether the guest closed its wire without a reply.
        received_bytes: bytes read from the wire.
    """

    def __init__(self, run: CodeRun, guest: Guest) -> None:
        super().__init__(run.limits.max_concurrent_calls)
        self.ended: Ended | None = None
        self.ending: Ending | None = None
        self.died = False
        self.received_bytes = 0
        self._run = run
        self._on_event = run.on_event
        self._guest = guest
        self.marks = PrintMarks(run.gate.seconds)
        """When and where the program printed."""
        self._wire = RunWire(run.limits, run.number, run.buffer)
        self._cancelled: set[int | str] = set()
        """Ids of calls that the program cancelled before they had begun."""
        self._is_listening = False
        """Whether `_read_on` waits for bytes."""
        self._heard: Iterator[Event] | BaseException | None = None
        """Events, or the fault, that `_hear` has left to `_read_on`."""
        self._ahead = self._others = 0
        """Bytes read while calls wait for a worker; number of calls that are no plain ones."""

    async def read(self) -> None:
        """Read until the guest's reply, or until it closes its wire.

        Raises:
            LimitReached: the guest printed too much, or sent a message that is too long.
            ProtocolError: the guest sent what is no message.
            SandboxCrashed: the guest is gone.
        """
        listen, task = getattr(self._guest, "listen", None), asyncio_task()
        if listen is None or task is None:
            await self._read_on()
            return
        self._reader = task
        context = contextvars.copy_context()
        # in the name of this task: what the operator's functions see is the same as if `_read_on` called them
        listen(lambda data: in_the_name_of(task, partial(context.run, self._hear, data)))
        try:
            await self._read_on()
        finally:
            listen(None)

    async def _read_on(self) -> None:
        while True:
            if self._is_far_ahead():
                await self.wait_for_room()
            self._is_listening = True
            stream, data = await self._guest.receive()
            self._is_listening = False
            if stream == "output":
                self._print(data.decode("utf-8", "replace"))
                continue
            if not data:
                self.died = True
                return
            heard, self._heard = self._heard, None
            if isinstance(heard, BaseException):
                raise heard
            events = self._events_in(data) if heard is None else heard
            for number, event in enumerate(events, 1):
                if number % _EVENTS_A_TURN == 0:
                    await anyio.lowlevel.checkpoint()
                if type(event) in _JOBS:
                    await self.open_tasks()
                if self._take(event):
                    continue
                if type(event) is Working:
                    await turn_of_others()
                elif type(event) is Ended:
                    self.print_unread()
                    self.ended = event if self.failure is None else None
                    return
                elif isinstance(event, CallCancelled):
                    await self.begun()
                    if not self.cancel_unless_waiting(event.id):
                        self._cancelled.add(event.id)  # recorded when a worker takes it

    def _hear(self, data: bytes) -> bool:
        """Take the events in `data` while `_read_on` waits for them. Returns whether no event is left for it."""
        if not self._is_listening or self._is_far_ahead():
            return False
        self.turn_began()
        events = self._events_in(data)
        try:
            for event in events:
                if self._tasks is None and type(event) in _JOBS:
                    self._heard = chain((event,), events)
                    return False
                if type(event) is Called:
                    self.begin(event.id, event)
                elif not self._take(event):
                    self._heard = chain((event,), events)
                    return False
                if self.wants_a_turn:
                    self._heard = events
                    return False
        except BaseException as error:
            self._heard = error
            return False
        return True

    def _events_in(self, data: bytes) -> Iterator[Event]:
        self.received_bytes += len(data)
        self._ahead += len(data)
        return self._wire.receive(data)

    def _is_far_ahead(self) -> bool:
        """Whether the calls that wait for a worker take too much memory."""
        if not self.waiting:
            self._ahead = 0
        return self._ahead > _READ_AHEAD_BYTES

    def _take(self, event: Event) -> bool:
        """Do what an event asks for. Returns False for an event that may have to wait for other tasks."""
        if type(event) is Called:
            self.submit(event.id, event)
        elif type(event) is Wrote:
            self._print(event.text, event.line)
        elif type(event) is Showed:
            self._show(event)
        elif type(event) is Ending:
            self.ending = event
        elif isinstance(event, (Withdrawn, Other)):
            self._others += 1
            self.submit(("other", self._others), event)
        else:
            return False
        return True

    def print_unread(self) -> None:
        """Print the output that is still in the pipe of stdout and stderr."""
        try:
            self._print(self._guest.unread_output().decode("utf-8", "replace"))
        except LimitReached as error:
            self.fail(error)

    def _show(self, shown: Showed) -> None:
        """Keep what the program displays; within the limits of artifacts, it is decoded."""
        products = self._run.products
        if products.takes(shown.name, shown.size_bytes):
            kept = products.add_shown(shown.name, shown.media_type, shown.data())
            if kept is not None:
                self.marks.add(self._wire.printed, shown.line, kept.handle)
                tell(self._on_event, Displayed(kept))

    def _print(self, text: str, line: int | None = None) -> None:
        if text:
            self.marks.add(self._wire.printed, line)
        try:
            self._wire.write(text)
        finally:
            if self._wire.latest:
                tell(self._on_event, Printed(self._wire.latest))

"""One program on one guest: sends it, serves its calls, takes its prints, and says how it ended. The only place that
does.

1. A run ends in one of these ways, whichever comes first: the guest's reply; a limit; a fault in what the guest sent;
   the guest's death; cancellation from outside. Nothing of it goes on when `run` returns.
2. **Calls begin in wire order.** What comes behind a call on the wire, a cancellation or the end, is heeded when that
   call has begun, if there is a worker for it. So it does not depend on how bytes arrive what has begun.
3. **The reply ends a program, not its calls.** Calls with effects that the program has issued are made, also those that
   still wait for a worker; those that only read are cancelled. An honest guest whose program ended well has none left:
   it has waited for them. The same holds for a guest that ended its own process.
4. **Whoever else ends a run cancels its calls**: a limit that the host holds, a fault, the host. A call that had not
   begun is recorded as cancelled, and so is one that only reads; others have an unknown outcome.
5. `wall_seconds` holds to the very end. Of a program that waits for its calls the value is known, and is kept.
"""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable, Iterable
from typing import Any

import anyio
import anyio.lowlevel

from callgate.errors import CallgateError, LimitReached, ProtocolError, SandboxCrashed, ToolError
from callgate.lazily import imported
from callgate.limits import Limits
from callgate.protocol.run import (
    CallCancelled,
    Called,
    Ended,
    Ending,
    Other,
    RunWire,
    Withdrawn,
    Working,
    Wrote,
    error_reply,
    result_reply,
)
from callgate.sandbox.backend import Guest, GuestExit
from callgate_guest.wire import INVALID_REQUEST, OUT_OF_MEMORY

from .driver import Driver
from .gate import RunGate
from .gate.events import Event, Printed
from .result import RunError

__all__ = ["GuestDrive", "explain_death"]

_READ_AHEAD_BYTES = 4 << 20
"""Of calls that wait for a worker, before the guest is made to wait."""
_LAST = 1 << 62
"""Sorts behind every id that a guest of ours gives."""
_CALLS_A_TURN = 500
_EVENTS_A_TURN = 2_000
"""Read from a guest before others have their turn; a message may be of three bytes, and one read of 64 KiB."""
"""Calls that are recorded as given up at once: that takes a few milliseconds."""
_UNSENT_BYTES = 32 << 20
"""Of replies that the guest has not read, before it gets no further call served."""

logger = logging.getLogger("callgate")


class GuestDrive:
    """One run under way.

    Args:
        guest: where it runs.
        wire: its protocol.
        gate: what its calls pass.
        limits: `wall_seconds` is held here, the others by the wire, the gate and the kernel.
        on_event: told of prints; the gate tells of calls.

    Attributes:
        ending: what the guest said when its program began to wait for calls.
        died: the guest closed its wire without a reply.
    """

    def __init__(
        self,
        guest: Guest,
        wire: RunWire,
        gate: RunGate,
        limits: Limits,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.ended: Ended | None = None
        self.ending: Ending | None = None
        self.died = False
        self.sent_bytes = 0
        self.received_bytes = 0
        self._guest = guest
        self._wire = wire
        self._gate = gate
        self._limits = limits
        self._on_event = on_event
        self._driver: Driver[object, Called | Withdrawn | Other] = Driver(self._serve, limits.max_concurrent_calls)
        self._cancelled: set[int | str] = set()
        """Calls that the program gave up before they had begun."""
        self._unfinished: list[Called | Withdrawn | Other] = []
        self._unsent_bytes = 0
        self._sent: anyio.Event | None = None
        self._batch_turn = anyio.Lock()

    @property
    def failure(self) -> CallgateError | None:
        """Why the host ended the run; the guest must not be used again."""
        return self._driver.failure

    async def run(self, request: bytes) -> None:
        """Send `request` and serve the run to its end. Raises nothing but cancellation."""

        async def main() -> None:
            try:
                await self._through(request)
            finally:
                if waiting := self._driver.clear():
                    if self._driver.stopped:
                        self._unfinished += waiting
                    with anyio.CancelScope(shield=True):  # it waits for nobody, and gives others their turn
                        await self._give_up(waiting)

        is_late = await self._driver.run(main, self._limits.wall_seconds)
        if self.ended is None:
            self._print_unread()
        if is_late and (self.ended is None or self.ended.error is None):
            self._driver.fail(LimitReached("wall_seconds", self._limits.wall_seconds))

    async def _through(self, request: bytes) -> None:
        try:
            await self._send(request)
            await self._read()
            if self.ended is not None and self._driver.jobs:
                await self._begun()
                self._driver.give_up(self._only_reads)
                await self._driver.done()
        except SandboxCrashed:
            self.died = True
        except (LimitReached, ProtocolError) as error:
            await self._begun()
            self._driver.fail(error)
        if self.died:
            await self._begun()

    async def _begun(self) -> None:
        """Return once every call that has a worker has begun: it has passed the gate's entrance, too."""
        await self._driver.begun()
        await self._gate.begun()

    def _only_reads(self, call: Called | Withdrawn | Other) -> bool:
        return isinstance(call, Called) and self._gate.only_reads(call.method)

    async def _give_up(self, calls: Iterable[Called | Withdrawn | Other]) -> None:
        """Record calls that had not begun, and never will."""
        try:
            for number, call in enumerate(calls, 1):
                if number % _CALLS_A_TURN == 0:
                    await anyio.lowlevel.checkpoint()
                if not isinstance(call, Other):
                    await self._gate.give_up(call.method, call.arguments)
        except LimitReached as error:
            self._driver.fail(error)

    def _is_wanted(self, call: Called | Other) -> bool:
        return isinstance(call, Other) or call.id not in self._cancelled

    @property
    def unfinished(self) -> tuple[str, int] | None:
        """When a limit ended a program that was over and waited for calls: the first one's tool, and their number."""
        left = [call for call in self._unfinished if isinstance(call, Called)]
        left.sort(key=lambda call: call.id if type(call.id) is int else _LAST)
        calls = [call.method for call in left]
        over = self.ended is not None or (self.ending is not None and isinstance(self.failure, LimitReached))
        return (calls[0], len(calls)) if over and calls else None

    async def _read(self) -> None:
        others = 0
        ahead = 0  # bytes read while calls wait for a worker: cancellations, prints and the end may be among them
        while True:
            if not self._driver.waiting:
                ahead = 0
            elif ahead > _READ_AHEAD_BYTES:
                await self._driver.wait_for_room()
            stream, data = await self._guest.receive()
            if stream == "output":
                self._print(data.decode("utf-8", "replace"))
                continue
            if not data:
                self.died = True
                return
            self.received_bytes += len(data)
            ahead += len(data)
            for number, event in enumerate(self._wire.receive(data), 1):
                if number % _EVENTS_A_TURN == 0:
                    await anyio.lowlevel.checkpoint()
                kind = type(event)
                if kind is Called:
                    self._driver.submit(event.id, event)  # type: ignore[union-attr, arg-type]
                elif kind is Wrote:
                    self._print(event.text)  # type: ignore[union-attr]
                elif kind is Working:
                    await anyio.lowlevel.checkpoint()
                elif kind is Ended:
                    self._print_unread()
                    self.ended = event if self.failure is None else None  # type: ignore[assignment]
                    return
                elif kind is Ending:
                    self.ending = event  # type: ignore[assignment]
                elif isinstance(event, CallCancelled):
                    await self._begun()
                    if not self._driver.give_up_begun(event.id):
                        self._cancelled.add(event.id)  # it is recorded when its turn comes
                elif isinstance(event, (Withdrawn, Other)):
                    others += 1
                    self._driver.submit(("other", others), event)

    def _print_unread(self) -> None:
        """What was written to stdout and stderr before the end, and is still in the pipe."""
        try:
            self._print(self._guest.unread_output().decode("utf-8", "replace"))
        except LimitReached as error:
            self._driver.fail(error)

    def _print(self, text: str) -> None:
        try:
            self._wire.write(text)
        finally:
            if self._on_event is not None and (latest := self._wire.latest):
                try:
                    self._on_event(Printed(latest))
                except Exception:
                    logger.exception("on_event raised")

    async def _serve(self, call: Called | Withdrawn | Other) -> None:
        over = self.failure is not None or (self.ended is not None and self._only_reads(call))
        if over or isinstance(call, Withdrawn) or (self._cancelled and not self._is_wanted(call)):
            await self._give_up([call])
            if self.failure is not None:
                self._driver.end(self.failure)
            return
        try:
            while self._unsent_bytes > _UNSENT_BYTES:  # the guest has to read before it gets more
                if self._sent is None or self._sent.is_set():
                    self._sent = anyio.Event()
                await self._sent.wait()
            if isinstance(call, Other):
                await self._serve_other(call)
                return
            try:
                data = result_reply(call.id, await self._gate.call(call.method, call.arguments))
            except ToolError as error:
                data = error_reply(call.id, error)
            if self.ended is None:
                await self._send(data)
        except LimitReached as error:
            self._driver.end(error)
        except SandboxCrashed:
            return  # the reader sees it too, and knows better why
        except BaseException:
            if self._driver.stopped:
                self._unfinished.append(call)
            raise

    async def _serve_other(self, call: Other) -> None:
        await anyio.lowlevel.checkpoint()  # each takes a while, and thousands of them may come at once
        # few runs need this lane, and its library takes long to import
        lane = await imported("callgate.runtime.jsonrpc_lane")
        if isinstance(call.message, list):
            async with self._batch_turn:
                given = await lane.answer(call.message, self._gate)
        else:
            given = await lane.answer(call.message, self._gate)
        if given.stop is not None:
            self._driver.end(given.stop)
            return
        if given.reply is not None and self.ended is None:
            await self._send(json.dumps(given.reply, allow_nan=False).encode() + b"\n")
        if given.fault is not None:
            self._driver.end(ProtocolError(f"the guest sent an invalid request ({INVALID_REQUEST}): {given.fault}"))

    async def _send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self._unsent_bytes += len(data)
        try:
            await self._guest.send(data)
        finally:
            self._unsent_bytes -= len(data)
            if self._sent is not None:
                self._sent.set()


def explain_death(ended: GuestExit, limits: Limits) -> RunError:
    """Why a guest died without a reply, as far as its exit status and the kernel's figures tell."""
    status, usage = ended.status, ended.usage
    if status is None:
        told = ended.reason or "the sandbox went away in the middle of the run; run the program again"
        return RunError("SandboxCrashed", told)
    cpu = usage.cpu_seconds if usage is not None else 0.0
    if (status == -signal.SIGXCPU and cpu >= limits.cpu_seconds * 0.5) or (
        status == -signal.SIGKILL and cpu >= limits.cpu_seconds
    ):
        # the kernel counts in ticks for the limit and exactly for us: on a busy machine the two differ by a lot
        return limit_error(LimitReached("cpu_seconds", limits.cpu_seconds, round(max(cpu, limits.cpu_seconds), 3)))
    if status == OUT_OF_MEMORY:
        peak = usage.peak_memory_bytes or None if usage is not None else None
        return limit_error(LimitReached("memory_bytes", limits.memory_bytes, peak))
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        hint = {
            "SIGSEGV": "it ran out of stack, or native code went wrong: recurse less deeply",
            "SIGBUS": "it wrote to a mapped file that had no room left",
            "SIGSYS": "it made a system call that does not exist in the sandbox",
            "SIGKILL": "by itself, or because the machine ran out of memory",
        }.get(name, "the program, or a library it uses, ended its own process")
        return RunError("GuestDied", f"the program's process was killed by {name}: {hint}")
    return RunError(
        "GuestDied", f"the program ended its own process with status {status} (os._exit): end it by returning"
    )


def limit_error(error: LimitReached, told: dict[str, Any] | None = None) -> RunError:
    """A limit as the run's error, with what the guest told of the place."""
    told = told or {}
    return RunError("LimitReached", str(error), told.get("line"), told.get("traceback", ""), limit=error.limit)

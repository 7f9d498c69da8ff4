"""One program on one guest: sends it, serves its calls, takes its prints, and says how it ended. The only place that
does.

A run ends in one of these ways, whichever comes first: the guest's reply; a limit; a fault in what the guest sent;
the guest's death; cancellation from outside. In every case the calls still going on are cancelled before `drive`
returns.
"""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from callgate.errors import CallgateError, LimitReached, ProtocolError, SandboxCrashed, ToolCancelled, ToolError
from callgate.limits import Limits
from callgate.protocol.run import CallCancelled, Called, Ended, Other, RunWire, Wrote, error_reply, result_reply
from callgate.sandbox.backend import Guest, GuestExit
from callgate_guest.wire import INVALID_REQUEST, OUT_OF_MEMORY

from .events import Event, Printed
from .gate import RunGate
from .jsonrpc_lane import answer
from .result import RunError
from .workers import Workers

__all__ = ["Drive", "explain_death"]

_READ_AHEAD_BYTES = 4 << 20
"""Of calls that wait for a worker, before the guest is made to wait."""
_UNSENT_BYTES = 32 << 20
"""Of replies that the guest has not read, before it gets no further call served."""

logger = logging.getLogger("callgate")


@dataclass(slots=True)
class Drive:
    """One run under way.

    Args:
        guest: where it runs.
        wire: its protocol.
        gate: what its calls pass.
        limits: `wall_seconds` is held here, the others by the wire, the gate and the kernel.
        on_event: told of prints; the gate tells of calls.
    """

    guest: Guest
    wire: RunWire
    gate: RunGate
    limits: Limits
    on_event: Callable[[Event], None] | None = None
    ended: Ended | None = None
    failure: CallgateError | None = None
    """Why the host ended the run; the guest must not be used again."""
    died: bool = False
    """The guest closed its wire without a reply."""
    sent_bytes: int = 0
    received_bytes: int = 0
    _scope: anyio.CancelScope | None = None
    _unsent_bytes: int = 0
    _sent: anyio.Event | None = None
    _batch_turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(self, request: bytes) -> None:
        """Send `request` and serve the run to its end. Raises nothing but cancellation."""
        with anyio.move_on_after(self.limits.wall_seconds) as scope:
            self._scope = scope
            async with anyio.create_task_group() as tasks:
                workers: Workers[object, Called | Other] = Workers(tasks, self._serve, self.limits.max_concurrent_calls)
                try:
                    await self._send(request)
                    await self._read(workers)
                except SandboxCrashed:
                    self.died = True
                except (LimitReached, ProtocolError) as error:
                    self.failure = error
                if workers.any:
                    tasks.cancel_scope.cancel()
        if self.ended is None:
            self._print_unread()
        if scope.cancelled_caught and self.failure is None and self.ended is None:
            self.failure = LimitReached("wall_seconds", self.limits.wall_seconds)

    async def _read(self, workers: Workers[object, Called | Other]) -> None:
        others = 0
        ahead = 0  # bytes read while calls wait for a worker: cancellations, prints and the end may be among them
        while True:
            if not workers.waiting:
                ahead = 0
            elif ahead > _READ_AHEAD_BYTES:
                await workers.wait_for_room()
            stream, data = await self.guest.receive()
            if stream == "output":
                self._print(data.decode("utf-8", "replace"))
                continue
            if not data:
                self.died = True
                return
            self.received_bytes += len(data)
            ahead += len(data)
            for event in self.wire.receive(data):
                kind = type(event)
                if kind is Called:
                    workers.submit(event.id, event)  # type: ignore[union-attr, arg-type]
                elif kind is Wrote:
                    self._print(event.text)  # type: ignore[union-attr]
                elif kind is Ended:
                    self._print_unread()
                    self.ended = event if self.failure is None else None  # type: ignore[assignment]
                    return
                elif isinstance(event, CallCancelled):
                    dropped = workers.cancel(event.id)
                    if isinstance(dropped, Called):  # it never came to the gate, and counts all the same
                        gave_up = ToolCancelled("the program gave this call up", tool=dropped.method)
                        self.gate.refuse(dropped.method, dropped.arguments, gave_up)
                elif isinstance(event, Other):
                    others += 1
                    workers.submit(("other", others), event)

    def _print_unread(self) -> None:
        """What was written to stdout and stderr before the end, and is still in the pipe."""
        try:
            self._print(self.guest.unread_output().decode("utf-8", "replace"))
        except LimitReached as error:
            self.failure = self.failure or error

    def _print(self, text: str) -> None:
        before = len(self.wire.logs)
        try:
            self.wire.write(text)
        finally:
            if self.on_event is not None and len(self.wire.logs) > before:
                try:
                    self.on_event(Printed(self.wire.logs[-1]))
                except Exception:
                    logger.exception("on_event raised")

    async def _serve(self, call: Called | Other) -> None:
        if self.failure is not None:  # the run is over: what still waits is not served
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
                data = result_reply(call.id, await self.gate.call(call.method, call.arguments))
            except ToolError as error:
                data = error_reply(call.id, error)
            await self._send(data)
        except LimitReached as error:
            self._stop(error)
        except SandboxCrashed:
            return  # the reader sees it too, and knows better why

    async def _serve_other(self, call: Other) -> None:
        if isinstance(call.message, list):
            async with self._batch_turn:
                given = await answer(call.message, self.gate)
        else:
            given = await answer(call.message, self.gate)
        if given.stop is not None:
            self._stop(given.stop)
            return
        if given.reply is not None:
            await self._send(json.dumps(given.reply, allow_nan=False).encode() + b"\n")
        if given.fault is not None:
            self._stop(ProtocolError(f"the guest sent an invalid request ({INVALID_REQUEST}): {given.fault}"))

    async def _send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self._unsent_bytes += len(data)
        try:
            await self.guest.send(data)
        finally:
            self._unsent_bytes -= len(data)
            if self._sent is not None:
                self._sent.set()

    def _stop(self, error: CallgateError) -> None:
        if self.failure is None and self.ended is None:
            self.failure = error
            assert self._scope is not None
            self._scope.cancel()


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
